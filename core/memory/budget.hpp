// SPDX-License-Identifier: Apache-2.0
// How much memory a rank may count on where the deck gives no budget: the least of what the node
// has free and of what is left under the control groups that the process is in, shared by the ranks
// of the node. `over_budget` (core/plan/interpret/footprint.hpp) holds the plan against it.
#pragma once

#include <cstdint>
#include <string>

namespace shardmark {

struct FoundMemory {
  std::int64_t bytes = 0;  // for one rank: device and host together on a CPU-only build
  std::string source;  // "cgroup limit of /sys/fs/cgroup/job (2 ranks)": for messages and report
};

/// Where the kernel says it; tests give files of their own.
struct MemoryFiles {
  std::string meminfo = "/proc/meminfo";
  std::string cgroup = "/proc/self/cgroup";
  std::string cgroup_root = "/sys/fs/cgroup";
};

/// Local; ranks of a node should call it before any of them allocates. Reads cgroup versions 1
/// and 2. Page cache that the kernel would give up counts as free. Throws MemoryError when nothing
/// is found.
FoundMemory find_memory(int ranks_per_node, const MemoryFiles& files = {});

}  // namespace shardmark
