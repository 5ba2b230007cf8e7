# SPDX-License-Identifier: Apache-2.0
# Settings for GPUs. Two questions are independent of each other:
#   SHARDMARK_ENABLE_CUDA   Does the program compute on a GPU of NVIDIA, or of AMD? This follows Kokkos.
#   SHARDMARK_ENABLE_HIP    The C++ compiler is then Kokkos' nvcc_wrapper, or hipcc, which also compile
#                           the .cu files. SHARDMARK_ENABLE_GPU is either of them
#   SHARDMARK_GPU_CODE      Can the code that needs only the toolkit be compiled, that is the NCCL
#                           back-end and native .cu files? If so, it is compiled by default, and its
#                           logic is tested with a stand-in
# SHARDMARK_ENABLE_NCCL says whether NCCL, or RCCL, is linked into the program, by default if both are
# available. Sources see the vendor's libraries by three targets: shardmark_gpu_headers,
# shardmark_gpu_runtime and shardmark_gpu_products.
set(SHARDMARK_ENABLE_GPU OFF)
foreach(backend CUDA HIP)
  set(kokkos_has OFF)
  if(backend IN_LIST Kokkos_DEVICES OR Kokkos_ENABLE_${backend})
    set(kokkos_has ON)
  endif()
  option(SHARDMARK_ENABLE_${backend} "Compute on a GPU by ${backend}: as Kokkos was built" ${kokkos_has})
  if(SHARDMARK_ENABLE_${backend} AND NOT kokkos_has)
    message(FATAL_ERROR "SHARDMARK_ENABLE_${backend}: this Kokkos (${SHARDMARK_KOKKOS_FROM}) was built "
                        "without ${backend}: point Kokkos_ROOT at one with it")
  elseif(kokkos_has AND NOT SHARDMARK_ENABLE_${backend})
    message(FATAL_ERROR "SHARDMARK_ENABLE_${backend}=OFF: this Kokkos (${SHARDMARK_KOKKOS_FROM}) computes on "
                        "a GPU: point Kokkos_ROOT at one without ${backend}")
  endif()
  if(SHARDMARK_ENABLE_${backend})
    set(SHARDMARK_ENABLE_GPU ON)
  endif()
endforeach()

add_library(shardmark_gpu_headers INTERFACE)
add_library(shardmark_gpu_runtime INTERFACE)
add_library(shardmark_gpu_products INTERFACE)
target_link_libraries(shardmark_gpu_runtime INTERFACE shardmark_gpu_headers)
target_link_libraries(shardmark_gpu_products INTERFACE shardmark_gpu_runtime)
if(SHARDMARK_ENABLE_HIP)
  find_path(HIP_INCLUDE_DIR hip/hip_runtime_api.h HINTS ENV ROCM_PATH PATHS /opt/rocm PATH_SUFFIXES include)
  find_library(HIP_LIBRARY amdhip64 HINTS ENV ROCM_PATH PATHS /opt/rocm PATH_SUFFIXES lib)
  find_path(HIPBLASLT_INCLUDE_DIR hipblaslt/hipblaslt.h HINTS ENV ROCM_PATH PATHS /opt/rocm
            PATH_SUFFIXES include)
  find_library(HIPBLASLT_LIBRARY hipblaslt HINTS ENV ROCM_PATH PATHS /opt/rocm PATH_SUFFIXES lib)
  foreach(needed HIP_INCLUDE_DIR HIP_LIBRARY HIPBLASLT_INCLUDE_DIR HIPBLASLT_LIBRARY)
    if(NOT ${needed})
      message(FATAL_ERROR "SHARDMARK_ENABLE_HIP: ROCm's run time and hipBLASLt were not found (${needed}): "
                          "give ROCM_PATH")
    endif()
  endforeach()
  set(SHARDMARK_GPU_INCLUDE_DIRS "${HIP_INCLUDE_DIR}")
  target_compile_definitions(shardmark_gpu_headers INTERFACE __HIP_PLATFORM_AMD__=1)
  target_include_directories(shardmark_gpu_products SYSTEM INTERFACE "${HIPBLASLT_INCLUDE_DIR}")
  target_link_libraries(shardmark_gpu_runtime INTERFACE "${HIP_LIBRARY}")
  target_link_libraries(shardmark_gpu_products INTERFACE "${HIPBLASLT_LIBRARY}")
  find_package(NCCL MODULE QUIET)
else()
  find_package(CUDAToolkit QUIET)
  find_package(NCCL 2.14 MODULE QUIET)  # the first release with non-blocking communicators
  if(SHARDMARK_ENABLE_CUDA AND NOT CUDAToolkit_FOUND)
    message(FATAL_ERROR "SHARDMARK_ENABLE_CUDA: the CUDA toolkit was not found: give CUDAToolkit_ROOT")
  endif()
  if(CUDAToolkit_FOUND)
    set(SHARDMARK_GPU_INCLUDE_DIRS ${CUDAToolkit_INCLUDE_DIRS})
    target_link_libraries(shardmark_gpu_runtime INTERFACE CUDA::cudart)
    target_link_libraries(shardmark_gpu_products INTERFACE CUDA::cublasLt)
  endif()
endif()
target_include_directories(shardmark_gpu_headers SYSTEM INTERFACE ${SHARDMARK_GPU_INCLUDE_DIRS})

set(nccl_by_default OFF)
if(SHARDMARK_ENABLE_GPU AND NCCL_FOUND)
  set(nccl_by_default ON)
endif()
option(SHARDMARK_ENABLE_NCCL "comm.backend \"nccl\"" ${nccl_by_default})
if(SHARDMARK_ENABLE_NCCL AND NOT (SHARDMARK_ENABLE_GPU AND NCCL_FOUND))
  message(FATAL_ERROR "SHARDMARK_ENABLE_NCCL: needs a Kokkos that was built for CUDA, and NCCL 2.14 or "
                      "newer, or one for HIP, and RCCL (found: '${NCCL_VERSION}'): give Kokkos_ROOT and "
                      "NCCL_ROOT")
endif()

set(SHARDMARK_GPU_CODE ${SHARDMARK_ENABLE_GPU})
set(SHARDMARK_GPU_LANGUAGE CXX)  # the language of .cu files: nvcc_wrapper and hipcc compile C++ files
set(shardmark_cuda_why_not "no CUDA toolkit")
if(CUDAToolkit_FOUND AND NOT SHARDMARK_ENABLE_GPU)
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
    set(SHARDMARK_GPU_LANGUAGE CUDA)
    set(SHARDMARK_GPU_CODE ON)
  else()
    set(shardmark_cuda_why_not "nvcc does not work with this host compiler")
  endif()
endif()
set(SHARDMARK_NCCL_CODE OFF)
if(SHARDMARK_GPU_CODE AND NCCL_FOUND)
  set(SHARDMARK_NCCL_CODE ON)
elseif(SHARDMARK_GPU_CODE)
  set(shardmark_cuda_why_not "no NCCL 2.14 or newer")
endif()
