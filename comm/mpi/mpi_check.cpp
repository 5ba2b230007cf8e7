// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <string>

#include <fmt/core.h>
#include <mpi.h>

#include <comm/mpi/mpi_check.hpp>
#include <core/error.hpp>

namespace shardmark {

void throw_failed_call(std::string_view call, std::string_view file, int line,
                       std::string_view reason) {
  if (const auto slash = file.rfind('/'); slash != std::string_view::npos)
    file.remove_prefix(slash + 1);
  throw CommError(fmt::format("{}:{}: {}: {}", file, line, call.substr(0, call.find('(')), reason));
}

void check_mpi(int code, std::string_view call, std::string_view file, int line) {
  if (code == MPI_SUCCESS) return;
  std::string text(MPI_MAX_ERROR_STRING, '\0');
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS)
    text = fmt::format("error code {}", code);
  else
    text.resize(static_cast<std::size_t>(length));
  throw_failed_call(call, file, line, text);
}

void report_mpi(int code, const char* call) {
  if (code != MPI_SUCCESS) std::fprintf(stderr, "%s failed with code %d\n", call, code);
}

}  // namespace shardmark
