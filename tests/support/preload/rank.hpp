// SPDX-License-Identifier: Apache-2.0
// The rank of this process as its launcher says it, before MPI is started.
#pragma once

#include <cstdlib>
#include <initializer_list>

namespace shardmark::test::preload {

/// -1 in a process that is no rank, such as the launcher.
inline int launched_rank() {
  for (const char* name : {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"})
    if (const char* value = std::getenv(name)) return std::atoi(value);
  return -1;
}

}  // namespace shardmark::test::preload
