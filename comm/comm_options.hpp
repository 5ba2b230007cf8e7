// SPDX-License-Identifier: Apache-2.0
// The options of all back-ends. All ranks of a group must use the same values, except for `idle`
// and the compute stream.
#pragma once

#include <cstdint>

#include <comm/idle.hpp>
#include <core/plan/collective_scratch.hpp>
#include <core/plan/deck/choices.hpp>

namespace shardmark {

/// The default size of one piece of an all_gather. It is large because an all_gather needs no
/// scratch and MPI is fastest with large pieces; it keeps the counts of a call below 32 bits.
inline constexpr std::int64_t default_gather_bytes = std::int64_t{256} << 20;

/// Options of the back-end `mpi`, and of device buffers that go through it.
struct MpiOptions {
  std::int64_t piece_bytes = default_piece_bytes;              // of one rank's part, per piece
  std::int64_t staging_cap_bytes = default_staging_cap_bytes;  // the limit of the scratch
  std::int64_t gather_bytes = default_gather_bytes;  // of all ranks together, per all_gather piece
  bool device_buffers = false;                       // the result of mpi_takes_device_buffers()
};

/// Options of the back-end `shm`.
struct ShmOptions {
  // See ShmWindow. Measured: so much is exchanged between two ranks without leaving their
  // second-level caches.
  std::int64_t buffer_bytes = std::int64_t{128} << 10;
  // See ShmLimits. From this size per rank on, the other ranks read the data directly from the
  // memory of the rank, if the system permits it: one copy instead of two, at the cost of a system
  // call.
  std::int64_t direct_bytes = std::int64_t{64} << 10;
};

/// The bytes of a piece of a collective in two levels. Measured: larger pieces leave the caches.
inline constexpr std::int64_t default_node_piece_bytes = std::int64_t{512} << 10;

/// Options of the back-end `node`.
struct NodeOptions {
  std::int64_t most_piece_bytes = default_node_piece_bytes;  // of an array, per piece
  std::int64_t least_piece_bytes = 0;  // down to which an array is cut; 0: measured at the start
  int part = 0;  // ranks with different values count as ranks of different nodes; for tests
};

/// Options of the back-end `nccl`.
struct NcclOptions {
  double start_timeout_s = 600;  // seconds until all ranks have joined the communicator
};

/// The options of make_communicator.
struct CommOptions {
  Reductions reductions = Reductions::native;
  Idle idle;                       // how a waiting rank pauses
  void* compute_stream = nullptr;  // the cudaStream_t whose work collectives are ordered with
  MpiOptions mpi;
  ShmOptions shm;
  NodeOptions node;
  NcclOptions nccl;
};

}  // namespace shardmark
