# SPDX-License-Identifier: Apache-2.0
# The program as users run it: processes, exit statuses, standard output and error, files. One test
# program, registered once a topic; it starts its ranks itself and is no MPI program.
add_executable(test_cli
               cli/program.cpp cli/checkpoint_crash_test.cpp cli/ckpt_test.cpp cli/errors_test.cpp
               cli/fault_test.cpp cli/fit_test.cpp cli/lost_rank_test.cpp cli/offload_test.cpp
               cli/output_test.cpp cli/page_test.cpp cli/plan_test.cpp cli/progress_test.cpp
               cli/sweep_test.cpp cli/told_test.cpp main.cpp)
shardmark_target(test_cli)
target_link_libraries(test_cli PRIVATE GTest::gtest Kokkos::kokkos nlohmann_json::nlohmann_json)
target_compile_definitions(test_cli PRIVATE
  SHARDMARK_TEST_PROGRAM="$<TARGET_FILE:shardmark>"
  SHARDMARK_TEST_MPIEXEC="${MPIEXEC_EXECUTABLE}"
  SHARDMARK_TEST_NUMPROC_FLAG="${MPIEXEC_NUMPROC_FLAG}"
  SHARDMARK_TEST_PREFLAGS="${MPIEXEC_PREFLAGS}"
  SHARDMARK_TEST_INPUTS="${PROJECT_SOURCE_DIR}/inputs")
add_dependencies(test_cli shardmark)

function(shardmark_cli_test name filter)
  add_test(NAME cli.${name} COMMAND test_cli --gtest_filter=${filter})
  set_tests_properties(cli.${name} PROPERTIES LABELS "cli;mpi;${ARGN}" TIMEOUT 300 RUN_SERIAL ON)
endfunction()

shardmark_cli_test(checkpoint_crash "CheckpointCrash.*")
shardmark_cli_test(checkpoint_crash_full "CheckpointCrashFull.*" full)
set_tests_properties(cli.checkpoint_crash_full PROPERTIES TIMEOUT 3600)
shardmark_cli_test(ckpt "Ckpt.*")
shardmark_cli_test(ckpt_full "CkptFull.*" full)
shardmark_cli_test(errors "Program/Errors.*:RanksThatDisagree.*")
shardmark_cli_test(faults "Outer/Faults.*:FaultsOfTheLink.*:Program/Sound.*")
shardmark_cli_test(faults_inner "Inner/Faults.*:FaultsInGroups.*" full)
shardmark_cli_test(fit "Fit.*")
shardmark_cli_test(lost_rank "Program/LostRank.*:Interrupt.*")
shardmark_cli_test(offload "Offload.*")
shardmark_cli_test(output "Report.*:Losses.*:OutputFolder.*:Runs.*")
# Rows of README's table of memory are what `plan` says: one small model, all stages and rank counts.
add_test(NAME cli.memory_table COMMAND ${PROJECT_SOURCE_DIR}/ci/memory-table --check llama-1b)
set_tests_properties(cli.memory_table PROPERTIES LABELS cli TIMEOUT 300
                     ENVIRONMENT "PROGRAM=$<TARGET_FILE:shardmark>")
shardmark_cli_test(page "Page.*")
shardmark_cli_test(plan "Stage/Plan.*:LargePlan.*:DeckCheck.*:Output.*")
shardmark_cli_test(progress "Ranks/Progress.*")
shardmark_cli_test(sweep "Sweep.*")
shardmark_cli_test(told "Trace.*:CommsLogger.*:WallClock.*")
