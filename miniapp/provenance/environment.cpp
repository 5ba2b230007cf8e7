// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include <fmt/core.h>

#include <core/text.hpp>
#include <miniapp/provenance/environment.hpp>

namespace shardmark {

namespace {

bool is_recorded(std::string_view variable) {
  const VariableKind kind = kind_of_variable(variable.substr(0, variable.find('=')));
  return kind == VariableKind::setting || kind == VariableKind::place;
}

bool may_differ_by_rank(const VariableOfRanks& variable) {
  return kind_of_variable(variable.name) == VariableKind::place;
}

// "rank 2 has 4, rank 0 has none".
std::string describe_difference(const VariableOfRanks& variable, int ranks) {
  std::vector<std::string> value_of(static_cast<std::size_t>(ranks), "has none");
  for (const auto& [value, of] : variable.values)
    for (const int r : of) value_of[r] = "has \"" + value + "\"";
  for (std::size_t r = 1; r < value_of.size(); ++r)
    if (value_of[r] != value_of[0])
      return fmt::format("environment: {}: rank {} {}, rank 0 {}", variable.name, r, value_of[r],
                         value_of[0]);
  return {};
}

}  // namespace

std::string environment_difference(const std::vector<RankInfo>& ranks) {
  for (const VariableOfRanks& v : by_variable(ranks))
    if (!v.same_everywhere && !may_differ_by_rank(v))
      return describe_difference(v, static_cast<int>(ranks.size()));
  return {};
}

std::string environment_warning(const std::vector<RankInfo>& ranks) {
  std::string names_of;
  for (const VariableOfRanks& v : by_variable(ranks))
    if (!v.same_everywhere && may_differ_by_rank(v)) add_item(names_of, v.name);
  return names_of.empty() ? "" : "The ranks have different values of " + names_of + ".";
}

std::vector<std::string> relevant_environment(const char* const* environment) {
  std::vector<std::string> found;
  for (; environment != nullptr && *environment != nullptr; ++environment)
    if (is_recorded(*environment)) found.emplace_back(*environment);
  std::ranges::sort(found);
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

namespace {

using Match = VariableRow::Match;

constexpr VariableRow identity(Match match, std::string_view text) {
  return {VariableKind::identity, match, text};
}
constexpr VariableRow setting(std::string_view beginning) {
  return {VariableKind::setting, Match::begins, beginning};
}
constexpr VariableRow named(std::string_view name) {
  return {VariableKind::setting, Match::is, name};
}
constexpr VariableRow place(std::string_view part) {
  return {VariableKind::place, Match::contains, part};
}

constexpr std::array known_variables{
    // Open MPI 2 to 4: mpirun describes the job and its daemons to each process in this way.
    identity(Match::begins, "OMPI_MCA_ess"), identity(Match::begins, "OMPI_MCA_orte_"),
    identity(Match::begins, "OMPI_MCA_pmix"), identity(Match::is, "OMPI_MCA_initial_wdir"),
    identity(Match::is, "OMPI_MCA_mpi_oversubscribe"),
    identity(Match::is, "OMPI_MCA_shmem_RUNTIME_QUERY_hint"),
    // Open MPI 5 and newer: the same by PRRTE and PMIx.
    identity(Match::is, "OMPI_MCA_PREFIXES"), identity(Match::is, "OMPI_MCA_cpu_type"),
    identity(Match::is, "OMPI_MCA_num_procs"),
    identity(Match::is, "OMPI_MCA_mca_base_component_path"),
    identity(Match::begins, "PRTE_MCA_ess"), identity(Match::begins, "PRTE_MCA_pmix"),
    identity(Match::begins, "PRTE_MCA_prte_"), identity(Match::is, "PMIX_MCA_psec"),
    identity(Match::is, "PMIX_MCA_mca_base_component_show_load_errors"),
    // MPICH's launcher sets it to the name of each host.
    identity(Match::is, "MPIR_CVAR_CH3_INTERFACE_HOSTNAME"),
    // Intel MPI's launcher describes the processor, and where it has bound the ranks.
    identity(Match::begins, "I_MPI_INFO_"), identity(Match::begins, "I_MPI_PIN_INFO"),
    identity(Match::begins, "I_MPI_PIN_MAPPING"), identity(Match::begins, "I_MPI_INTERNAL_"),
    identity(Match::is, "I_MPI_BIND_WIN_ALLOCATE"), identity(Match::is, "I_MPI_HYDRA_TOPOLIB"),
    identity(Match::is, "I_MPI_RETURN_WIN_MEM_NUMA"),
    // oneCCL's bootstrap.
    identity(Match::begins, "CCL_KVS_"), identity(Match::begins, "CCL_LOCAL_"),
    // Keys, addresses and folders of sessions, whoever has set them.
    identity(Match::ends, "_UUID"), identity(Match::ends, "_KEY"), identity(Match::ends, "_SECRET"),
    identity(Match::ends, "_TOKEN"), identity(Match::ends, "_PASSWORD"),
    identity(Match::ends, "_COOKIE"), identity(Match::ends, "_URI"),
    identity(Match::ends, "_ADDRESS"), identity(Match::ends, "_COMM_ID"),
    identity(Match::ends, "_SESSION_DIR"),

    // Threads and kernels.
    setting("OMP_"), setting("KMP_"), setting("GOMP_"), setting("KOKKOS_"),
    // Matrix products.
    setting("ONEDNN_"), setting("DNNL_"), setting("MKL_"), setting("OPENBLAS_"), setting("BLIS_"),
    setting("ROCBLAS_"), setting("HIPBLASLT_"), setting("TENSILE_"), setting("CUBLAS"),
    // MPI: MPICH, Cray MPICH, Open MPI and PRRTE, Intel MPI, MVAPICH.
    setting("MPICH_"), setting("MPIR_"), setting("OMPI_MCA_"), setting("PRTE_MCA_"),
    setting("PMIX_MCA_"), setting("I_MPI_"), setting("MV2_"), setting("MVP_"),
    // Networks below MPI, and collectives beside it.
    setting("FI_"), setting("UCX_"), setting("UCC_"), setting("PSM2_"), setting("PSM3_"),
    setting("HCOLL_"), setting("SHARP_"), setting("NCCL_"), setting("RCCL_"), setting("CCL_"),
    setting("MSCCL_"), setting("MSCCLPP_"),
    // Devices and their run times.
    setting("CUDA_"), setting("HIP_"), setting("ROCR_"), setting("HSA_"), setting("AMD_"),
    setting("GPU_"), setting("ZE_"), setting("ZES_"), setting("SYCL_"), setting("ONEAPI_"),
    // Memory and topology.
    setting("MALLOC_"), setting("HWLOC_"), setting("HUGETLB_"), setting("GLIBC_TUNABLES"),
    named("LD_PRELOAD"), named("LD_AUDIT"), setting("SHARDMARK_"),
    // What a person asks Slurm for; its numbers of jobs, steps and processes are identities.
    named("SLURM_CLUSTER_NAME"), named("SLURM_JOB_PARTITION"), named("SLURM_CPUS_PER_TASK"),
    named("SLURM_CPU_BIND"), named("SLURM_MEM_BIND"), named("SLURM_DISTRIBUTION"),

    // Launchers and wrapper scripts set these rank by rank for good reasons.
    place("AFFINITY"), place("PLACES"), place("_DEVICE"), place("VISIBLE"), place("IFNAME"),
    place("_IFACE"), place("_HCA"), place("HOSTID"), place("HOSTNAME"), place("SLURM_"),
    place("TOPO_"), place("_PIN_DOMAIN"), place("_PROCESSOR_LIST")};

bool any_fits(VariableKind kind, std::string_view name) {
  return std::ranges::any_of(
      known_variables, [&](const VariableRow& row) { return row.kind == kind && row.fits(name); });
}

}  // namespace

bool VariableRow::fits(std::string_view name) const {
  switch (match) {
    case Match::begins: return name.starts_with(text);
    case Match::is: return name == text;
    case Match::ends: return name.ends_with(text);
    case Match::contains: return name.find(text) != std::string_view::npos;
  }
  return false;
}

std::span<const VariableRow> variable_rows() {
  return known_variables;
}

VariableKind kind_of_variable(std::string_view name) {
  if (any_fits(VariableKind::identity, name)) return VariableKind::identity;
  if (!any_fits(VariableKind::setting, name)) return VariableKind::other;
  return any_fits(VariableKind::place, name) ? VariableKind::place : VariableKind::setting;
}

}  // namespace shardmark
