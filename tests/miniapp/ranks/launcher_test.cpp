// SPDX-License-Identifier: Apache-2.0
// Which launches are refused: those of another MPI, under which each process is a world of its own.
#include <map>
#include <string>

#include <gtest/gtest.h>

#include <miniapp/ranks/launcher.hpp>

namespace shardmark::test::launcher_test {
namespace {

using Variables = std::map<std::string, std::string>;

ReadVariable reader_of(const Variables& variables) {
  return [&variables](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

std::string refusal(int world, const Variables& variables) {
  return wrong_launcher(world, "MPICH Version: 4.0.2", reader_of(variables)).value_or("");
}

TEST(Launcher, OfAnotherMpiIsRefusedWithBothNames) {
  const std::string why =
      refusal(1, {{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "1"}});
  for (const char* part : {"Open MPI's mpiexec started 2 processes", "OMPI_COMM_WORLD_SIZE = 2",
                           "MPICH Version: 4.0.2", "a world of 1 rank"})
    EXPECT_NE(why.find(part), std::string::npos) << why;
  for (const char* variable : {"PMI_SIZE", "PALS_SIZE", "FLUX_JOB_SIZE", "SLURM_STEP_NUM_TASKS"})
    EXPECT_NE(refusal(1, {{variable, "4"}}).find(std::string(variable) + " = 4"),
              std::string::npos);
  EXPECT_NE(refusal(1, {{"SLURM_STEP_NUM_TASKS", "4"}}).find("srun --mpi=pmi2"), std::string::npos);
}

TEST(Launcher, OfThisMpiIsAccepted) {
  EXPECT_EQ(refusal(1, {}), "");
  EXPECT_EQ(refusal(2, {{"PMI_SIZE", "2"}}), "");
  EXPECT_EQ(refusal(1, {{"PMI_SIZE", "1"}}), "");
  EXPECT_EQ(refusal(1, {{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}}), "")
      << "a single process of a batch script";
  EXPECT_EQ(refusal(8, {{"OMPI_COMM_WORLD_SIZE", "8"}, {"SLURM_STEP_NUM_TASKS", "2"}}), "")
      << "srun started the daemons of mpiexec";
  EXPECT_EQ(refusal(2, {{"PMI_SIZE", "2"}, {"OMPI_COMM_WORLD_SIZE", "16"}}), "")
      << "a launch inside of another";
}

TEST(Launcher, GivesTheRankBeforeMpiStarts) {
  EXPECT_EQ(launched_rank(reader_of({})), 0);
  for (const char* name : {"PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PALS_RANKID",
                           "FLUX_TASK_RANK", "SLURM_PROCID"})
    EXPECT_EQ(launched_rank(reader_of({{name, "3"}})), 3) << name;
}

}  // namespace
}  // namespace shardmark::test::launcher_test
