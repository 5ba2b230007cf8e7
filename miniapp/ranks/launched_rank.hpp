// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace shardmark {

/// The rank that the launcher gave this process, known before MPI_Init; 0 without a launcher.
int launched_rank();

/// The name of this host, for messages; empty if the system does not tell it.
std::string host_of_process();

}  // namespace shardmark
