// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include <miniapp/provenance/environment.hpp>

namespace shardmark {
namespace {

constexpr std::array<std::string_view, 10> prefixes{
    "OMP_", "KOKKOS_", "ONEDNN_", "DNNL_", "MPICH_", "MPIR_", "FI_", "UCX_", "NCCL_", "SHARDMARK_"};
constexpr std::array<std::string_view, 10> names{
    "GOMP_CPU_AFFINITY", "SLURM_CLUSTER_NAME",  "SLURM_CPUS_PER_TASK", "SLURM_CPU_BIND",
    "SLURM_JOB_ID",      "SLURM_JOB_NUM_NODES", "SLURM_JOB_PARTITION", "SLURM_MEM_BIND",
    "SLURM_NTASKS",      "SLURM_DISTRIBUTION"};

bool is_relevant(std::string_view variable) {
  const auto begins = [&](std::string_view prefix) { return variable.starts_with(prefix); };
  const auto is = [name = variable.substr(0, variable.find('='))](std::string_view n) {
    return name == n;
  };
  return std::any_of(prefixes.begin(), prefixes.end(), begins) ||
         std::any_of(names.begin(), names.end(), is);
}

}  // namespace

std::vector<std::string> relevant_environment(const char* const* environment) {
  std::vector<std::string> found;
  for (; environment != nullptr && *environment != nullptr; ++environment)
    if (is_relevant(*environment)) found.emplace_back(*environment);
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<VariableOfRanks> by_variable(const std::vector<RankInfo>& ranks) {
  std::map<std::string, std::map<std::string, std::vector<int>>> all;
  for (std::size_t r = 0; r < ranks.size(); ++r)
    for (const std::string& variable : ranks[r].environment) {
      const auto equals = variable.find('=');
      all[variable.substr(0, equals)][variable.substr(equals + 1)].push_back(static_cast<int>(r));
    }
  std::vector<VariableOfRanks> list;
  for (auto& [name, values] : all) {
    VariableOfRanks& v = list.emplace_back();
    v.name = name;
    for (auto& [value, of] : values) v.values.emplace_back(value, std::move(of));
    v.same_everywhere = v.values.size() == 1 && v.values[0].second.size() == ranks.size();
  }
  return list;
}

}  // namespace shardmark
