// SPDX-License-Identifier: Apache-2.0
// How much memory a rank may use when the deck gives no budget. The answer is the smallest of what
// the node has free and what every enclosing control group still allows, divided by the ranks of
// the node. `over_budget` (core/plan/interpret/memory_refusal.hpp) compares the plan with this
// number.
#pragma once

#include <cstdint>
#include <string>

namespace shardmark {

/// An amount of free memory, and where the number comes from.
struct FoundMemory {
  std::int64_t bytes = 0;  // per rank; on a CPU-only build for device and host together
  // Where the number comes from, for messages and the report:
  // "cgroup limit of /sys/fs/cgroup/job (2 ranks)".
  std::string source;
};

/// The files of the Linux kernel that are read. Tests pass files of their own.
struct MemoryFiles {
  std::string meminfo = "/proc/meminfo";
  std::string cgroup = "/proc/self/cgroup";
  std::string cgroup_root = "/sys/fs/cgroup";
};

/// Returns the memory that one of `ranks_per_node` ranks may use. Reads control groups of version 1
/// and version 2; page cache that the kernel can reclaim counts as free. Not collective; call it
/// before any rank of the node allocates. Throws MemoryError when none of the files gives a number.
FoundMemory find_memory(int ranks_per_node, const MemoryFiles& files = {});

/// Returns the bytes of memory that the node has (MemTotal); 0 if it is not known. Not collective.
std::int64_t node_memory_bytes(const MemoryFiles& files = {});

}  // namespace shardmark
