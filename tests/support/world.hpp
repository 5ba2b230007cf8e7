// SPDX-License-Identifier: Apache-2.0
// The beginning of every MPI test: rank, size, and options that suit waiting on this machine.
#pragma once

#include <set>
#include <vector>

#include <gtest/gtest.h>
#include <mpi.h>

#include <comm/factory/make_communicator.hpp>
#include <comm/mpi/mpi_check.hpp>
#include <comm/mpi/node.hpp>
#include <tests/support/world_rank.hpp>

namespace shardmark::test {

inline CommOptions make_options(Reductions reductions = Reductions::native) {
  static const Idle idle = find_node(MPI_COMM_WORLD).idle();
  CommOptions options;
  options.reductions = reductions;
  options.idle = idle;
  return options;
}
// Another program with the same tests may define its own list.
#if !defined(SHARDMARK_TEST_BACKENDS)
#define SHARDMARK_TEST_BACKENDS                                   \
  Backend::mpi, Backend::shm, {Backend::node, Placement::halves}, \
      {Backend::node, Placement::first_alone}, {                  \
    Backend::node, Placement::by_threes                           \
  }
#define SHARDMARK_TEST_REDUCTIONS Reductions::native, Reductions::ordered
#endif
/// Which ranks of this machine a test takes for ranks of the same node.
enum class Placement : std::uint8_t { one_node, halves, first_alone, by_threes };

/// A back-end under test. It can be used like its Backend.
struct TestedBackend {
  Backend backend = Backend::mpi;
  Placement placement = Placement::one_node;
  constexpr TestedBackend(Backend b, Placement p = Placement::one_node)
      : backend(b), placement(p) {}
  constexpr operator Backend() const { return backend; }

  /// The name of the back-end, and of the placement if it is not one node.
  std::string name() const {
    constexpr const char* of[] = {"", "_halves", "_first_alone", "_by_threes"};
    return std::string(to_string(backend)) + of[static_cast<int>(placement)];
  }
  /// The node of `rank`: 2 + 2 ranks, 1 + 3, or {0, 3}, {1} and {2} of four ranks.
  int node_of(int rank, int size) const {
    switch (placement) {
      case Placement::one_node: return 0;
      case Placement::halves: return rank < size / 2 ? 0 : 1;
      case Placement::first_alone: return rank == 0 ? 0 : 1;
      case Placement::by_threes: return rank % 3;
    }
    return 0;
  }
};
inline std::ostream& operator<<(std::ostream& out, const TestedBackend& tested) {
  return out << tested.name();
}
/// The back-ends under test that several ranks of this machine can use, and how each sums.
inline constexpr TestedBackend all_backends[] = {SHARDMARK_TEST_BACKENDS};
/// Those of them whose nodes differ at this number of ranks, with placements up to `last`. MPI must
/// be initialised.
inline std::vector<TestedBackend> tested_backends(Placement last = Placement::by_threes) {
  std::vector<TestedBackend> tested;
  std::set<std::pair<Backend, std::vector<int>>> seen;
  for (const TestedBackend& one : all_backends) {
    if (one.placement > last) continue;
    std::vector<int> nodes;
    for (int rank = 0; rank < world_size(); ++rank)
      nodes.push_back(one.node_of(rank, world_size()) - one.node_of(0, world_size()));
    if (seen.emplace(one.backend, nodes).second) tested.push_back(one);
  }
  return tested;
}
inline constexpr Reductions backend_reductions[] = {SHARDMARK_TEST_REDUCTIONS};
inline std::unique_ptr<Communicator> make_world(CommOptions options,
                                                const TestedBackend& tested = Backend::mpi) {
  options.node.part = tested.node_of(world_rank(), world_size());
  return make_communicator(tested, MPI_COMM_WORLD, options);
}
inline std::string backend_name(const ::testing::TestParamInfo<TestedBackend>& info) {
  return info.param.name();
}

/// A barrier that belongs to the tests, independent of everything under test.
inline void mpi_barrier() {
  check_mpi(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
}

}  // namespace shardmark::test
