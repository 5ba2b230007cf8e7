// SPDX-License-Identifier: Apache-2.0
// The environment variables that change how fast a run is, or say which job it was.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <miniapp/measure/result.hpp>

namespace shardmark {

/// "NAME=value" of this process, by name: OMP_*, KOKKOS_*, ONEDNN_*, DNNL_*, MPICH_*, MPIR_*, FI_*,
/// UCX_*, NCCL_*, SHARDMARK_* and what of SLURM_* says which job this is and how it was bound.
std::vector<std::string> relevant_environment(const char* const* environment);

/// A variable with the ranks that have it at one value; ranks that lack it are not listed.
struct VariableOfRanks {
  std::string name;
  std::vector<std::pair<std::string, std::vector<int>>> values;  // value, ranks ascending
  bool same_everywhere = false;
};
/// All variables of all ranks, by name.
std::vector<VariableOfRanks> by_variable(const std::vector<RankInfo>& ranks);

}  // namespace shardmark
