// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include <miniapp/ranks/launched_rank.hpp>

namespace shardmark {

int launched_rank() {
  for (const char* name : {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"})
    if (const char* value = std::getenv(name); value != nullptr) return std::atoi(value);
  return 0;
}

}  // namespace shardmark
