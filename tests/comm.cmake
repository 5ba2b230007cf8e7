# SPDX-License-Identifier: Apache-2.0
shardmark_test(comm_local FILES comm/half_test.cpp comm/scratch_test.cpp LIBS shardmark_comm
               LABELS comm)
shardmark_test(comm FILES comm/verbs_test.cpp comm/ordered_test.cpp comm/lane_test.cpp comm/factory_test.cpp
                          comm/calls_test.cpp comm/decorators_test.cpp comm/shm_test.cpp
                          comm/mpi_counter.cpp
               LIBS shardmark_comm NP 1 2 3 4 LABELS comm)
shardmark_test(watchdog FILES comm/watchdog_test.cpp LIBS shardmark_comm NP 2 3 4 LABELS comm)

# The NCCL back-end on a stand-in for NCCL and the CUDA runtime, linked in their place: the tests of
# all back-ends, and its own. Where Kokkos computes on a GPU its own calls would meet the stand-in.
if(SHARDMARK_NCCL_CODE AND NOT SHARDMARK_ENABLE_CUDA)
  shardmark_test(nccl FILES comm/nccl/nccl_test.cpp comm/nccl/order_test.cpp comm/nccl/failure_test.cpp
                            comm/nccl/staging_test.cpp comm/nccl/copy_lane_test.cpp
                            "${PROJECT_SOURCE_DIR}/miniapp/cuda/copy_lane.cpp"
                            comm/verbs_test.cpp comm/lane_test.cpp comm/nccl/fake_cuda.cpp
                            comm/nccl/fake_nccl.cpp comm/nccl/fake_divide.cpp
                 LIBS shardmark_nccl shardmark_comm NP 1 2 3 4 LABELS comm)
  target_compile_definitions(test_nccl PRIVATE SHARDMARK_TEST_BACKENDS="nccl"
                                               SHARDMARK_TEST_REDUCTIONS=Reductions::native)
endif()

# A program of its own, since all its ranks must die.
add_executable(stopped_rank comm/stopped_rank.cpp)
shardmark_target(stopped_rank)
target_link_libraries(stopped_rank PRIVATE shardmark_comm)
add_test(NAME stopped_rank
         COMMAND "${CMAKE_CURRENT_SOURCE_DIR}/comm/stopped_rank.sh" ${MPIEXEC_EXECUTABLE}
                 ${MPIEXEC_NUMPROC_FLAG} $<TARGET_FILE:stopped_rank>)
set_tests_properties(stopped_rank PROPERTIES LABELS "comm;mpi" TIMEOUT 120 RUN_SERIAL ON)
