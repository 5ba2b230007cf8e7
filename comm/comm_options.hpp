// SPDX-License-Identifier: Apache-2.0
// What can be chosen about the MPI back-end. All ranks of a group must choose the same, but for the
// waiting.
#pragma once

#include <cstdint>

#include <comm/idle.hpp>
#include <comm/shm/shm_rounds.hpp>
#include <comm/shm/shm_window.hpp>
#include <core/plan/collective_scratch.hpp>

namespace shardmark {

/// An all_gather needs no scratch and MPI does it best in large pieces; this keeps what one call
/// receives below MPI's 32-bit counts.
inline constexpr std::int64_t default_gather_bytes = std::int64_t{256} << 20;

struct MpiOptions {
  Reductions reductions = Reductions::native;
  std::int64_t piece_bytes = default_piece_bytes;  // a rank's part of a piece
  std::int64_t staging_cap_bytes = default_staging_cap_bytes;
  std::int64_t gather_bytes = default_gather_bytes;  // an all_gather's piece, all ranks together
  std::int64_t shm_buffer_bytes = default_shm_buffer_bytes;  // of the back-end shm
  std::int64_t shm_direct_bytes =
      default_shm_direct_bytes;  // of the back-end shm, as in shm_cut.hpp
  Idle idle;
  double start_timeout_s = 600;    // of the back-end nccl: until all ranks have come together
  void* compute_stream = nullptr;  // of the back-end nccl: the cudaStream_t that it is ordered with
  bool device_buffers = false;     // of the back-end mpi: MPI takes addresses of the device
};

}  // namespace shardmark
