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

}  // namespace shardmark
