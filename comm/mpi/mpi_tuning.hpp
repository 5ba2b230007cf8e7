// SPDX-License-Identifier: Apache-2.0
// MPI settings that were found by measurement and must be made before MPI starts. They only affect
// speed: without them a reduce_scatter takes up to twice as long, and so does every collective in
// two levels over TCP.
#pragma once

namespace shardmark {

/// Selects MPICH's algorithms that move the least data, and on several nodes that only TCP joins
/// the protocol of UCX without handshakes, through the environment variables of MPICH and UCX. A
/// variable that is already set stays. Under another MPI library than MPICH and its relatives
/// nothing is set. Not collective; call it before MPI_Init. Throws CommError.
void tune_mpich();

/// Whether the ranks run on several nodes whose network has no remote memory access, as far as the
/// variables of the launcher and the system tell. Not collective; ranks may differ.
bool only_tcp_between_nodes();

}  // namespace shardmark
