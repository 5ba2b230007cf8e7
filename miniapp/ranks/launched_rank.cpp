// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include <unistd.h>

#include <miniapp/ranks/launched_rank.hpp>

namespace shardmark {

int launched_rank() {
  for (const char* name : {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"})
    if (const char* value = std::getenv(name); value != nullptr) return std::atoi(value);
  return 0;
}

std::string host_of_process() {
  char host[256] = "";
  if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  return host;
}

}  // namespace shardmark
