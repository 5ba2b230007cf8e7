// SPDX-License-Identifier: Apache-2.0
// The beginning of every MPI test: rank, size, and options that suit waiting on this machine.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>

#include <comm/factory/make_communicator.hpp>
#include <comm/mpi/mpi_check.hpp>
#include <comm/mpi/node.hpp>
#include <tests/support/world_rank.hpp>

namespace shardmark::testing {

inline CommOptions make_options(Reductions reductions = Reductions::native) {
  static const Idle idle = find_node(MPI_COMM_WORLD).idle();
  CommOptions options;
  options.reductions = reductions;
  options.idle = idle;
  return options;
}
// Another program with the same tests may define its own list.
#if !defined(SHARDMARK_TEST_BACKENDS)
#define SHARDMARK_TEST_BACKENDS Backend::mpi, Backend::shm
#define SHARDMARK_TEST_REDUCTIONS Reductions::native, Reductions::ordered
#endif
/// The back-ends under test that several ranks of this machine can use, and how each sums.
inline constexpr Backend backends[] = {SHARDMARK_TEST_BACKENDS};
inline constexpr Reductions backend_reductions[] = {SHARDMARK_TEST_REDUCTIONS};
inline std::unique_ptr<Communicator> make_world(const CommOptions& options,
                                                Backend backend = Backend::mpi) {
  return make_communicator(backend, MPI_COMM_WORLD, options);
}
inline std::string backend_name(const ::testing::TestParamInfo<Backend>& info) {
  return std::string(to_string(info.param));
}

/// A barrier that belongs to the tests, independent of everything under test.
inline void mpi_barrier() {
  check_mpi(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
}

}  // namespace shardmark::testing
