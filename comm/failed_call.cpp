// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <comm/failed_call.hpp>
#include <core/error.hpp>

namespace shardmark {

void throw_failed_call(std::string_view call, std::string_view file, int line,
                       std::string_view reason) {
  if (const auto slash = file.rfind('/'); slash != std::string_view::npos)
    file.remove_prefix(slash + 1);
  throw CommError(fmt::format("{}:{}: {}: {}", file, line, call.substr(0, call.find('(')), reason));
}

}  // namespace shardmark
