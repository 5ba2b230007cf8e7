// SPDX-License-Identifier: Apache-2.0
// Where a run's figures come from: hosts, cores, threads, processors, software, environment.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <comm/mpi/node.hpp>
#include <miniapp/measure/result.hpp>
#include <miniapp/ranks/peers.hpp>

namespace shardmark {

/// Versions of ShardMark, of the libraries that this binary uses, of the compiler and of the
/// system.
std::map<std::string, std::string> library_versions();

/// Returns the current time in UTC, such as "2026-11-23T12:30:00Z".
std::string utc_now();

/// Collective. Host, cores and environment of every rank, in rank order, on all ranks.
std::vector<RankInfo> rank_infos(const Node& node, Peers& peers);

}  // namespace shardmark
