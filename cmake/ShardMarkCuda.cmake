# SPDX-License-Identifier: Apache-2.0
# Settings for GPUs. Two questions are independent of each other:
#   SHARDMARK_ENABLE_CUDA   Does the program compute on a GPU? This follows Kokkos. The C++ compiler is
#                           then Kokkos' nvcc_wrapper, which also compiles the .cu files
#   SHARDMARK_CUDA_CODE     Can the code that needs only the toolkit be compiled, that is the NCCL
#                           back-end and native .cu files? If so, it is compiled by default, and its
#                           logic is tested with a stand-in
# SHARDMARK_ENABLE_NCCL says whether NCCL is linked into the program, by default if both are
# available.
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
find_package(NCCL 2.14 MODULE QUIET)  # the first release with non-blocking communicators
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
set(SHARDMARK_CUDA_LANGUAGE CXX)  # the language of .cu files: nvcc_wrapper compiles C++ files as CUDA
set(shardmark_cuda_why_not "no CUDA toolkit")
if(CUDAToolkit_FOUND AND NOT SHARDMARK_ENABLE_CUDA)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80 90)
  endif()
  # By the environment: check_language tries no compiler that CMAKE_CUDA_COMPILER names.
  if(NOT DEFINED CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    set(ENV{CUDACXX} "${CUDAToolkit_NVCC_EXECUTABLE}")
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
