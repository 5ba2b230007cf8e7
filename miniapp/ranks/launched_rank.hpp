// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace shardmark {

/// The rank that the launcher gave this process, known before MPI_Init; 0 without a launcher.
int launched_rank();

}  // namespace shardmark
