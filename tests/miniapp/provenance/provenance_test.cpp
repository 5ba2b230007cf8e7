// SPDX-License-Identifier: Apache-2.0
// Where a run's figures come from: what the system says, and warnings about placement. Also how
// failures are reported.
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include <miniapp/provenance/environment.hpp>
#include <miniapp/provenance/fatal_signals.hpp>
#include <miniapp/provenance/machine.hpp>
#include <miniapp/provenance/provenance.hpp>
#include <miniapp/report/report_provenance.hpp>

namespace shardmark::test::provenance_test {
namespace {

namespace fs = std::filesystem;

RankInfo rank_on(const std::string& host, const std::string& cores, int threads = 1,
                 const std::string& nodes = "0") {
  RankInfo r;
  r.host = host;
  r.processor = "P";
  r.cores = cores;
  r.numa_nodes = nodes;
  r.kernel_threads = threads;
  r.thread_binding = "spread";
  return r;
}

// A machine of two NUMA nodes with four cores each, in files.
class Machine : public ::testing::Test {
 protected:
  Machine() : root_(fs::temp_directory_path() / ("shardmark_machine_" + std::to_string(getpid()))) {
    files_ = {root_ / "cpuinfo", root_ / "nodes"};
    write("cpuinfo", "processor\t: 0\nmodel name\t: Nimble 9000 @ 2 GHz\n");
    write("nodes/node0/cpulist", "0-3\n");
    write("nodes/node1/cpulist", "4-7\n");
    write("nodes/online", "0-1\n");
  }
  ~Machine() override { fs::remove_all(root_); }
  void write(const std::string& name, const std::string& text) {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  fs::path root_;
  MachineFiles files_;
};

TEST_F(Machine, NamesProcessorAndNodes) {
  EXPECT_EQ(processor_model(files_), "Nimble 9000 @ 2 GHz");
  EXPECT_EQ(numa_nodes("0-1", files_), "0");
  EXPECT_EQ(numa_nodes("5", files_), "1");
  EXPECT_EQ(numa_nodes("3-4", files_), "0-1");
}

TEST_F(Machine, NamesProcessorsOfArmByImplementerAndPart) {
  const auto name = [&](const std::string& implementer, const std::string& part) {
    write("cpuinfo", "processor\t: 0\nBogoMIPS\t: 200.00\nCPU implementer\t: " + implementer +
                         "\nCPU architecture: 8\nCPU variant\t: 0x0\nCPU part\t: " + part +
                         "\nCPU revision\t: 0\n");
    return processor_model(files_);
  };
  EXPECT_EQ(name("0x46", "0x001"), "Fujitsu A64FX");
  EXPECT_EQ(name("0x41", "0xd4f"), "Arm Neoverse-V2");
  EXPECT_EQ(name("0x41", "0xd40"), "Arm Neoverse-V1");
  EXPECT_EQ(name("0x41", "0xfff"), "Arm part 0xfff");
  EXPECT_EQ(name("0x99", "0x001"), "ARM of implementer 0x99 part 0x001");
}

TEST_F(Machine, IsEmptyWhereTheKernelSaysNothing) {
  write("cpuinfo", "processor\t: 0\nCPU part\t: 0xd0c\n");
  EXPECT_FALSE(processor_model(files_).empty());
  fs::remove_all(root_ / "nodes");
  EXPECT_EQ(numa_nodes("0-1", files_), "");
}

TEST(Environment, ContainsOnlyRelevantVariables) {
  const char* const environment[] = {
      "PATH=/bin",         "UCX_TLS=rc",        "SLURM_CPU_BIND=x",    "SLURM_JWT=secret",
      "OMP_NUM_THREADS=1", "HOMER=x",           "SLURM_JOB_ID=7",      "XOMP_A=1",
      "PMI_RANK=1",        "OMPI_MCA_ess_x=12", "SHARDMARK_FAULT=a=b", nullptr};
  EXPECT_EQ(relevant_environment(environment),
            (std::vector<std::string>{"OMP_NUM_THREADS=1", "SHARDMARK_FAULT=a=b",
                                      "SLURM_CPU_BIND=x", "UCX_TLS=rc"}));
}

// What the launchers set in each process, as they were seen to do, and keys and addresses.
TEST(Environment, LeavesOutIdentitiesKeysAndAddresses) {
  for (const char* name : {"OMPI_MCA_ess_base_vpid",
                           "OMPI_MCA_ess_base_jobid",
                           "OMPI_MCA_ess",
                           "OMPI_MCA_orte_hnp_uri",
                           "OMPI_MCA_orte_precondition_transports",
                           "OMPI_MCA_orte_jobfam_session_dir",
                           "OMPI_MCA_orte_ess_node_rank",
                           "OMPI_MCA_pmix",
                           "OMPI_MCA_initial_wdir",
                           "OMPI_MCA_mpi_oversubscribe",
                           "OMPI_MCA_num_procs",
                           "PMIX_MCA_psec",
                           "PRTE_MCA_ess_base_nspace",
                           "PRTE_MCA_prte_ess_node_rank",
                           "MPIR_CVAR_CH3_INTERFACE_HOSTNAME",
                           "I_MPI_HYDRA_UUID",
                           "I_MPI_INFO_CACHE1",
                           "I_MPI_PIN_INFO",
                           "NCCL_COMM_ID",
                           "CCL_KVS_IP_PORT",
                           "PSM2_UUID"})
    EXPECT_EQ(kind_of_variable(name), VariableKind::identity) << name;
  for (const char* name :
       {"OMPI_COMM_WORLD_RANK", "OMPI_UNIVERSE_SIZE", "PMIX_RANK", "PMIX_NAMESPACE",
        "PMIX_SERVER_URI41", "PMI_FD", "PALS_RANKID", "SLURM_PROCID", "SLURM_JOB_ID",
        "HYDRA_BSTRAP_LOCALHOST", "PRTE_LAUNCHED"})
    EXPECT_EQ(kind_of_variable(name), VariableKind::other) << name;
}

TEST(Environment, ComparesWhatAPersonSetsForAnyMpiAndVendor) {
  for (const char* name : {"OMPI_MCA_pml",
                           "OMPI_MCA_btl_tcp_if_include",
                           "OMPI_MCA_coll_tuned_use_dynamic_rules",
                           "OMPI_MCA_rmaps_base_oversubscribe",
                           "PRTE_MCA_rmaps_default_mapping_policy",
                           "PMIX_MCA_gds",
                           "I_MPI_FABRICS",
                           "I_MPI_ADJUST_ALLREDUCE",
                           "MPICH_OFI_NIC_POLICY",
                           "MV2_USE_CUDA",
                           "HIP_FORCE_DEV_KERNARG",
                           "HSA_ENABLE_SDMA",
                           "ROCR_FOO",
                           "RCCL_MSCCL_ENABLE",
                           "CCL_ALLREDUCE",
                           "ZE_FLAT",
                           "SYCL_CACHE_PERSISTENT",
                           "HWLOC_XMLFILE",
                           "GOMP_SPINCOUNT",
                           "PSM2_RANKS_PER_CONTEXT",
                           "LD_PRELOAD",
                           "GLIBC_TUNABLES"})
    EXPECT_EQ(kind_of_variable(name), VariableKind::setting) << name;
  for (const char* name :
       {"ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK", "HIP_VISIBLE_DEVICES", "GOMP_CPU_AFFINITY",
        "SLURM_CPU_BIND", "UCX_NET_DEVICES", "I_MPI_PIN_PROCESSOR_LIST", "NCCL_HOSTID"})
    EXPECT_EQ(kind_of_variable(name), VariableKind::place) << name;
}

TEST(Environment, RowsOfTheTableAreDocumented) {
  std::ifstream file(SHARDMARK_TESTS "/../docs/valid.md");
  if (!file) GTEST_SKIP() << "the documents are not installed beside the tests";
  const std::string page((std::istreambuf_iterator<char>(file)), {});
  for (const VariableRow& row : variable_rows())
    EXPECT_NE(page.find(row.text), std::string::npos) << row.text;
}

TEST(Environment, DistinguishesRanks) {
  std::vector<RankInfo> ranks(3);
  for (RankInfo& r : ranks) r.environment = {"OMP_NUM_THREADS=1"};
  ranks[2].environment.push_back("UCX_TLS=rc");
  const auto variables = by_variable(ranks);
  ASSERT_EQ(variables.size(), 2U);
  EXPECT_TRUE(variables[0].same_everywhere);
  EXPECT_FALSE(variables[1].same_everywhere) << "two ranks lack it";
  EXPECT_EQ(variables[1].values[0].second, (std::vector<int>{2}));
  Result result;
  result.ranks = ranks;
  EXPECT_EQ(environment_lines(result),
            (std::vector<std::string>{"OMP_NUM_THREADS=1", "UCX_TLS=rc (rank 2)"}));
}

// What differs is either a sentence of the report or a reason for INVALID, never silent.
TEST(Environment, OfRanksMustAgreeExceptForPlaces) {
  std::vector<RankInfo> ranks(3);
  for (RankInfo& r : ranks) r.environment = {"UCX_NET_DEVICES=a", "UCX_TLS=rc"};
  EXPECT_EQ(environment_difference(ranks), "");
  EXPECT_EQ(environment_warning(ranks), "");
  ranks[1].environment[0] = "UCX_NET_DEVICES=b";
  EXPECT_EQ(environment_difference(ranks), "");
  EXPECT_EQ(environment_warning(ranks), "The ranks have different values of UCX_NET_DEVICES.");
  ranks[2].environment[1] = "UCX_TLS=tcp";
  EXPECT_EQ(environment_difference(ranks),
            "environment: UCX_TLS: rank 2 has \"tcp\", rank 0 has \"rc\"");
  ranks[2].environment[1] = "UCX_TLS=rc";
  ranks[0].environment.push_back("LD_PRELOAD=x.so");
  EXPECT_EQ(environment_difference(ranks),
            "environment: LD_PRELOAD: rank 1 has none, rank 0 has \"x.so\"");
}

TEST(Placement, IsSilentIfPlacementIsGood) {
  EXPECT_TRUE(placement_warnings({rank_on("a", "0-1"), rank_on("a", "0-1")}).empty());
  EXPECT_TRUE(placement_warnings({rank_on("a", "0"), rank_on("b", "0")}).empty())
      << "the same core number on two hosts is two cores";
  EXPECT_TRUE(placement_warnings({rank_on("a", "0-7", 8, "0-1")}).empty())
      << "its threads need both nodes";
}

TEST(Placement, ReportsRanksBoundToOneCore) {
  const auto list = placement_warnings({rank_on("a", "0"), rank_on("a", "1"), rank_on("a", "0")});
  ASSERT_EQ(list.size(), 1U);
  EXPECT_NE(list[0].find("ranks 0,2 share cores: 2 threads on 1 core of a (0)"), std::string::npos)
      << list[0];
}

TEST(Placement, ReportsMasksThatOverlapTooMuch) {
  const auto list =
      placement_warnings({rank_on("a", "0-1", 2), rank_on("a", "1-2", 2), rank_on("a", "3-4", 2)});
  ASSERT_EQ(list.size(), 1U);
  EXPECT_NE(list[0].find("ranks 0-1 share cores: 4 threads on 3 cores of a (0-2)"),
            std::string::npos)
      << list[0];
}

TEST(Placement, ReportsMoreThreadsThanCores) {
  const auto list = placement_warnings({rank_on("a", "0-3", 8)});
  ASSERT_EQ(list.size(), 1U);
  EXPECT_NE(list[0].find("rank 0 runs 8 threads on 4 cores"), std::string::npos) << list[0];
}

TEST(Placement, ReportsHowOpenMpBindsSeveralThreads) {
  std::vector<RankInfo> ranks{rank_on("a", "0-3", 2), rank_on("b", "0-3", 2)};
  EXPECT_TRUE(placement_warnings(ranks).empty());
  for (RankInfo& r : ranks) r.thread_binding = "false";
  auto list = placement_warnings(ranks);
  ASSERT_EQ(list.size(), 1U);
  EXPECT_NE(list[0].find("ranks 0-1: OpenMP does not bind the threads"), std::string::npos)
      << list[0];
  ranks[0].thread_binding = "close";
  ranks[1].thread_binding = "primary";
  list = placement_warnings(ranks);
  ASSERT_EQ(list.size(), 1U);
  EXPECT_NE(list[0].find("rank 1: OpenMP binds all threads to the place of the first"),
            std::string::npos)
      << list[0];
}

TEST(Placement, ReportsUnboundRanksWhereMemoryCanBeFar) {
  const auto list = placement_warnings({rank_on("a", "0-7", 1, "0-1"), rank_on("a", "0-3")});
  ASSERT_EQ(list.size(), 1U);
  EXPECT_NE(list[0].find("rank 0 may run on several NUMA nodes"), std::string::npos) << list[0];
}

TEST(Placement, ReportsDifferentProcessors) {
  std::vector<RankInfo> ranks{rank_on("a", "0"), rank_on("b", "0")};
  ranks[1].processor = "Q";
  const auto list = placement_warnings(ranks);
  ASSERT_EQ(list.size(), 1U);
  EXPECT_NE(list[0].find("P (rank 0), Q (rank 1)"), std::string::npos) << list[0];
}

TEST(Placement, SaysFewSentencesOfManyRanks) {
  std::vector<RankInfo> ranks;
  for (int host = 0; host < 500; ++host)
    for (int r = 0; r < 2; ++r) ranks.push_back(rank_on("host" + std::to_string(host), "0"));
  EXPECT_LE(placement_warnings(ranks).size(), 10U);
  EXPECT_EQ(rank_groups(ranks).size(), 500U);
}

// The failure that an exception stands for.
template<class Thrown>
Failure failure_of(const Thrown& thrown) {
  try {
    throw thrown;
  } catch (...) {
    return current_failure();
  }
}

TEST(Failures, UnexpectedExceptionsAreDefectsAndSayWhatToReport) {
  for (const Failure& failure :
       {failure_of(PlanError("a slot")), failure_of(std::logic_error("a slot")), failure_of(1)}) {
    EXPECT_EQ(failure.status, ExitStatus::defect);
    const std::string text = failure_text(failure);
    EXPECT_TRUE(text.starts_with(failure.what + ": ")) << text;
    for (const char* part : {"a defect in ShardMark", "the deck", "ranks"})
      EXPECT_NE(text.find(part), std::string::npos) << part << ": " << text;
  }
}

TEST(Failures, ErrorsOfUsersAndMachinesAreNoDefects) {
  for (const Failure& failure : {failure_of(DeckError("a")), failure_of(SizeError("a")),
                                 failure_of(CommError("a")), failure_of(std::bad_alloc())}) {
    EXPECT_NE(failure.status, ExitStatus::defect);
    const std::string text = failure_text(failure);
    EXPECT_TRUE(text.starts_with(failure.what)) << text;
    EXPECT_EQ(text.find("defect"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace shardmark::test::provenance_test
