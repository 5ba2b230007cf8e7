// SPDX-License-Identifier: Apache-2.0
// MPI settings that were found by measurement and must be made before MPI starts. They only affect
// speed: without them a reduce_scatter takes up to twice as long.
#pragma once

namespace shardmark {

/// Selects MPICH's algorithms that move the least data, through MPICH's own environment variables.
/// A variable that is already set stays. Other MPI libraries ignore these variables. Not
/// collective; call it before MPI_Init. Throws CommError.
void tune_mpich();

}  // namespace shardmark
