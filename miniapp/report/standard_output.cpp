// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include <core/error.hpp>
#include <miniapp/report/standard_output.hpp>

namespace shardmark {

void print_out(std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!written || std::fflush(stdout) != 0)
    throw IoError(std::string("standard output: cannot be written: ") + std::strerror(errno) +
                  ": free the space, or send it elsewhere");
}

}  // namespace shardmark
