// SPDX-License-Identifier: Apache-2.0
// Settings that must be made before MPI starts, found by measurement. Nobody needs them for
// correctness; without them a reduce_scatter takes up to twice as long.
#pragma once

namespace shardmark {

/// Chooses, by MPICH's own environment variables, the algorithms that move least; a variable that
/// is set already stays. Other MPI libraries do not look at them. Throws CommError.
void tune_mpich();

}  // namespace shardmark
