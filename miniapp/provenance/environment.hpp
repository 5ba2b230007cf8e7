// SPDX-License-Identifier: Apache-2.0
// The environment variables that affect the speed of a run or identify its job.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <miniapp/measure/result.hpp>

namespace shardmark {

/// "NAME=value" of this process, by name: OMP_*, KOKKOS_*, ONEDNN_*, DNNL_*, MPICH_*, MPIR_*, FI_*,
/// UCX_*, NCCL_*, SHARDMARK_*, and those of SLURM_* that say which job this is and how it is bound.
std::vector<std::string> relevant_environment(const char* const* environment);

/// A variable, with the ranks that have each of its values; ranks that lack it are not listed.
struct VariableOfRanks {
  std::string name;
  std::vector<std::pair<std::string, std::vector<int>>> values;  // value, ranks ascending
  bool same_everywhere = false;
};
/// All variables of all ranks, by name.
std::vector<VariableOfRanks> by_variable(const std::vector<RankInfo>& ranks);

}  // namespace shardmark
