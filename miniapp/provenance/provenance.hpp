// SPDX-License-Identifier: Apache-2.0
// Where a run's figures come from: hosts, cores, threads, processors, software, environment.
#pragma once

#include <string>
#include <vector>

#include <comm/mpi/node.hpp>
#include <miniapp/measure/result.hpp>
#include <miniapp/provenance/version.hpp>
#include <miniapp/ranks/peers.hpp>

namespace shardmark {

/// Collective. Host, cores and environment of every rank, in rank order, on all ranks.
std::vector<RankInfo> rank_infos(const Node& node, Peers& peers);

/// One sentence each: ranks that share too few cores (two bound to one core, say), a rank with more
/// threads than cores, threads that OpenMP does not bind or binds to one place, ranks that may move
/// between NUMA nodes, processors of several models. Pure,
/// so the result is the same on every rank. The number of sentences is bounded for any number of
/// ranks.
std::vector<std::string> placement_warnings(const std::vector<RankInfo>& ranks);

}  // namespace shardmark
