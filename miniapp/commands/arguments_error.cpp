// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <miniapp/commands/arguments_error.hpp>
#include <miniapp/ranks/launcher.hpp>
#include <miniapp/report/standard_output.hpp>

namespace shardmark {

bool speaks_for_launch() {
  return launched_rank() == 0;
}

ExitStatus arguments_error(const std::string& what, const std::string& command) {
  if (speaks_for_launch())
    print_error(
        fmt::format("{}: see `shardmark {}--help`", what, command.empty() ? "" : command + " "));
  return ExitStatus::usage;
}

}  // namespace shardmark
