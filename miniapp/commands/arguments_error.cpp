// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>

#include <fmt/core.h>

#include <miniapp/commands/arguments_error.hpp>

namespace shardmark {
namespace {

// The rank that a launcher gave this process, before MPI is initialized; 0 without a launcher.
int launched_rank() {
  for (const char* name : {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"})
    if (const char* value = std::getenv(name); value != nullptr) return std::atoi(value);
  return 0;
}

}  // namespace

bool speaks_for_launch() {
  return launched_rank() == 0;
}

int arguments_error(const std::string& what, const std::string& command) {
  if (speaks_for_launch())
    fmt::print(stderr, "shardmark: {}: see `shardmark {}--help`\n", what,
               command.empty() ? "" : command + " ");
  return static_cast<int>(ExitStatus::usage);
}

}  // namespace shardmark
