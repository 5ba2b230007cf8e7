// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include <fmt/core.h>

#include <miniapp/provenance/environment.hpp>

namespace shardmark {
namespace {

constexpr std::array<std::string_view, 16> prefixes{
    "OMP_",      "KMP_", "KOKKOS_", "ONEDNN_", "DNNL_", "MKL_",    "MPICH_",     "MPIR_",
    "OMPI_MCA_", "FI_",  "UCX_",    "NCCL_",   "CUDA_", "MALLOC_", "SHARDMARK_", "GLIBC_TUNABLES"};
constexpr std::array<std::string_view, 12> names{
    "LD_PRELOAD",          "LD_AUDIT",       "GOMP_CPU_AFFINITY", "SLURM_CLUSTER_NAME",
    "SLURM_CPUS_PER_TASK", "SLURM_CPU_BIND", "SLURM_JOB_ID",      "SLURM_JOB_NUM_NODES",
    "SLURM_JOB_PARTITION", "SLURM_MEM_BIND", "SLURM_NTASKS",      "SLURM_DISTRIBUTION"};

bool is_relevant(std::string_view variable) {
  const auto begins = [&](std::string_view start) { return variable.starts_with(start); };
  const auto is = [name = variable.substr(0, variable.find('='))](std::string_view n) {
    return name == n;
  };
  return std::any_of(prefixes.begin(), prefixes.end(), begins) ||
         std::any_of(names.begin(), names.end(), is);
}

// Parts of the names of variables that say where a rank runs or which device it uses.
constexpr std::array<std::string_view, 11> of_places{"AFFINITY", "PLACES", "_DEVICE", "VISIBLE",
                                                     "IFNAME",   "_IFACE", "_HCA",    "HOSTID",
                                                     "HOSTNAME", "SLURM_", "TOPO_"};

// MPICH's launcher sets it to the name of each host.
constexpr std::string_view own_host_name = "MPIR_CVAR_CH3_INTERFACE_HOSTNAME";

// "rank 2 has 4, rank 0 has none".
std::string describe_difference(const VariableOfRanks& variable, int ranks) {
  std::vector<std::string> value_of(static_cast<std::size_t>(ranks), "has none");
  for (const auto& [value, of] : variable.values)
    for (const int r : of) value_of[static_cast<std::size_t>(r)] = "has \"" + value + "\"";
  for (std::size_t r = 1; r < value_of.size(); ++r)
    if (value_of[r] != value_of[0])
      return fmt::format("environment: {}: rank {} {}, rank 0 {}", variable.name, r, value_of[r],
                         value_of[0]);
  return {};
}

}  // namespace

bool may_differ_by_rank(std::string_view name) {
  return std::any_of(of_places.begin(), of_places.end(), [&](std::string_view part) {
    return name.find(part) != std::string_view::npos;
  });
}

std::string environment_difference(const std::vector<RankInfo>& ranks) {
  for (const VariableOfRanks& v : by_variable(ranks))
    if (!v.same_everywhere && !may_differ_by_rank(v.name))
      return describe_difference(v, static_cast<int>(ranks.size()));
  return {};
}

std::string environment_warning(const std::vector<RankInfo>& ranks) {
  std::string names_of;
  for (const VariableOfRanks& v : by_variable(ranks))
    if (!v.same_everywhere && may_differ_by_rank(v.name) && v.name != own_host_name)
      names_of += (names_of.empty() ? "" : ", ") + v.name;
  return names_of.empty() ? "" : "The ranks have different values of " + names_of + ".";
}

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
