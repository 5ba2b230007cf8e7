# SPDX-License-Identifier: Apache-2.0
# Prints the configuration on one screen.
set(shardmark_mpi "${MPI_CXX_LIBRARY_VERSION_STRING}")
if(NOT shardmark_mpi)
  set(shardmark_mpi "MPI ${MPI_CXX_VERSION}")
endif()
message(STATUS "ShardMark ${PROJECT_VERSION}")
message(STATUS "  compiler    ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}, ${CMAKE_BUILD_TYPE}")
if(SHARDMARK_PLANNER)
  message(STATUS "  planner     commands that run or measure are left out")
  message(STATUS "  libraries   nlohmann-json ${nlohmann_json_VERSION}, CLI11 ${CLI11_VERSION}, "
                 "fmt ${fmt_VERSION}, xxHash ${xxHash_VERSION}, yaml-cpp ${yaml-cpp_VERSION}")
  return()
endif()
set(kokkos_threads "Serial: kernels on one thread per rank")
if(Kokkos_OPENMP OR Kokkos_ENABLE_OPENMP OR "OPENMP" IN_LIST Kokkos_DEVICES)
  set(kokkos_threads "OpenMP")
endif()
message(STATUS "  Kokkos      ${Kokkos_VERSION}, ${kokkos_threads} (${SHARDMARK_KOKKOS_FROM})")
message(STATUS "  MPI         ${shardmark_mpi} (${MPIEXEC_EXECUTABLE})")
message(STATUS "  oneDNN      ${DNNL_VERSION}")
message(STATUS "  HDF5        ${ParallelHDF5_VERSION} (${ParallelHDF5_LIBRARY})")
message(STATUS "  libraries   nlohmann-json ${nlohmann_json_VERSION}, CLI11 ${CLI11_VERSION}, "
               "fmt ${fmt_VERSION}, xxHash ${xxHash_VERSION}, yaml-cpp ${yaml-cpp_VERSION}")
if(SHARDMARK_ENABLE_HIP)
  message(STATUS "  HIP         ${HIP_LIBRARY}, kernels on the GPU; RCCL '${NCCL_VERSION}', back-end "
                 "nccl: ${SHARDMARK_ENABLE_NCCL}")
elseif(SHARDMARK_ENABLE_CUDA)
  message(STATUS "  CUDA        ${CUDAToolkit_VERSION}, kernels on the GPU; NCCL '${NCCL_VERSION}', "
                 "back-end nccl: ${SHARDMARK_ENABLE_NCCL}")
elseif(SHARDMARK_NCCL_CODE)
  message(STATUS "  CUDA        ${CUDAToolkit_VERSION}, NCCL ${NCCL_VERSION}: compiled and tested on a "
                 "stand-in; the program computes on the host, as its Kokkos does")
else()
  message(STATUS "  CUDA        none: tests nccl* are left out: ${shardmark_cuda_why_not}")
endif()
message(STATUS "  options     native=${SHARDMARK_NATIVE} tests=${SHARDMARK_BUILD_TESTS} "
               "sanitize=${SHARDMARK_SANITIZE} werror=${SHARDMARK_WERROR}")
