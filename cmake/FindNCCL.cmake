# SPDX-License-Identifier: Apache-2.0
# Finds NCCL by header and library (NCCL_ROOT, or beside the CUDA toolkit), or RCCL, which has the same
# names, if the program computes by HIP. Defines NCCL::nccl, NCCL_FOUND, NCCL_VERSION.
if(SHARDMARK_ENABLE_HIP)
  set(nccl_header rccl/rccl.h)
  set(nccl_library rccl)
else()
  set(nccl_header nccl.h)
  set(nccl_library nccl)
endif()
find_path(NCCL_INCLUDE_DIR ${nccl_header} HINTS ENV NCCL_ROOT ENV NCCL_HOME ENV ROCM_PATH
          PATHS ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
find_library(NCCL_LIBRARY ${nccl_library} HINTS ENV NCCL_ROOT ENV NCCL_HOME ENV ROCM_PATH
             PATHS ${CUDAToolkit_LIBRARY_DIR} PATH_SUFFIXES lib lib64)
mark_as_advanced(NCCL_INCLUDE_DIR NCCL_LIBRARY)

set(NCCL_VERSION "")
if(NCCL_INCLUDE_DIR AND EXISTS "${NCCL_INCLUDE_DIR}/${nccl_header}")
  foreach(part MAJOR MINOR PATCH)
    file(STRINGS "${NCCL_INCLUDE_DIR}/${nccl_header}" line REGEX "define NCCL_${part} +[0-9]+"
         LIMIT_COUNT 1)
    string(REGEX MATCH "[0-9]+" number "${line}")
    list(APPEND NCCL_VERSION "${number}")
  endforeach()
  list(JOIN NCCL_VERSION "." NCCL_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NCCL REQUIRED_VARS NCCL_LIBRARY NCCL_INCLUDE_DIR
                                  VERSION_VAR NCCL_VERSION)

if(NCCL_FOUND AND NOT TARGET NCCL::nccl)
  add_library(NCCL::nccl UNKNOWN IMPORTED)
  set_target_properties(NCCL::nccl PROPERTIES
                        IMPORTED_LOCATION "${NCCL_LIBRARY}"
                        INTERFACE_INCLUDE_DIRECTORIES "${NCCL_INCLUDE_DIR}")
endif()
