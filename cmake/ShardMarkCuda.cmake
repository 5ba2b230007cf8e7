# SPDX-License-Identifier: Apache-2.0
# The device. Two questions, apart:
#   SHARDMARK_ENABLE_CUDA   does the program compute on a GPU? Follows Kokkos; the C++ compiler is then
#                           Kokkos' nvcc_wrapper, which compiles our .cu files too
#   SHARDMARK_CUDA_CODE     can what needs the toolkit alone, the NCCL back-end and native .cu files, be
#                           compiled? Then it is, by default, and its logic is tested on a stand-in
# and SHARDMARK_ENABLE_NCCL: is NCCL linked into the program? By default where both are there.
set(kokkos_has_cuda OFF)
if("CUDA" IN_LIST Kokkos_DEVICES OR Kokkos_ENABLE_CUDA)
  set(kokkos_has_cuda ON)
endif()
option(SHARDMARK_ENABLE_CUDA "Compute on a GPU: as Kokkos was built" ${kokkos_has_cuda})
if(SHARDMARK_ENABLE_CUDA AND NOT kokkos_has_cuda)
  message(FATAL_ERROR "SHARDMARK_ENABLE_CUDA: this Kokkos (${SHARDMARK_KOKKOS_FROM}) was built without "
                      "CUDA: point Kokkos_ROOT at one with it")
elseif(kokkos_has_cuda AND NOT SHARDMARK_ENABLE_CUDA)
  message(FATAL_ERROR "SHARDMARK_ENABLE_CUDA=OFF: this Kokkos (${SHARDMARK_KOKKOS_FROM}) computes on a "
                      "GPU: point Kokkos_ROOT at one without CUDA")
endif()

find_package(CUDAToolkit QUIET)
find_package(NCCL 2.14 MODULE QUIET)  # the first whose communicators need not block
if(SHARDMARK_ENABLE_CUDA AND NOT CUDAToolkit_FOUND)
  message(FATAL_ERROR "SHARDMARK_ENABLE_CUDA: the CUDA toolkit was not found: give CUDAToolkit_ROOT")
endif()
set(nccl_by_default OFF)
if(SHARDMARK_ENABLE_CUDA AND NCCL_FOUND)
  set(nccl_by_default ON)
endif()
option(SHARDMARK_ENABLE_NCCL "comm.backend \"nccl\"" ${nccl_by_default})
if(SHARDMARK_ENABLE_NCCL AND NOT (SHARDMARK_ENABLE_CUDA AND NCCL_FOUND))
  message(FATAL_ERROR "SHARDMARK_ENABLE_NCCL: needs a Kokkos that was built for CUDA, and NCCL 2.14 or "
                      "newer (found: '${NCCL_VERSION}'): give Kokkos_ROOT and NCCL_ROOT")
endif()

set(SHARDMARK_CUDA_CODE ${SHARDMARK_ENABLE_CUDA})
set(SHARDMARK_CUDA_LANGUAGE CXX)  # of .cu files: nvcc_wrapper takes every file for one
set(shardmark_cuda_why_not "no CUDA toolkit")
if(CUDAToolkit_FOUND AND NOT SHARDMARK_ENABLE_CUDA)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80 90)
  endif()
  if(NOT DEFINED CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_COMPILER "${CUDAToolkit_NVCC_EXECUTABLE}")
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    set(SHARDMARK_CUDA_LANGUAGE CUDA)
    set(SHARDMARK_CUDA_CODE ON)
  else()
    set(shardmark_cuda_why_not "nvcc does not work with this host compiler")
  endif()
endif()
set(SHARDMARK_NCCL_CODE OFF)
if(SHARDMARK_CUDA_CODE AND NCCL_FOUND)
  set(SHARDMARK_NCCL_CODE ON)
elseif(SHARDMARK_CUDA_CODE)
  set(shardmark_cuda_why_not "no NCCL 2.14 or newer")
endif()
