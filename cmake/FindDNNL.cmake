# SPDX-License-Identifier: Apache-2.0
# Finds oneDNN by header and library. oneDNN's own CMake config also requires what only its GPU part
# uses (Debian's: OpenCL headers), which ShardMark does not call. Defines DNNL::dnnl, DNNL_FOUND,
# DNNL_VERSION.
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.hpp HINTS ENV DNNLROOT PATH_SUFFIXES include)
find_library(DNNL_LIBRARY dnnl HINTS ENV DNNLROOT PATH_SUFFIXES lib lib64)
mark_as_advanced(DNNL_INCLUDE_DIR DNNL_LIBRARY)

set(DNNL_VERSION "")
if(DNNL_INCLUDE_DIR AND EXISTS "${DNNL_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h")
  foreach(part MAJOR MINOR PATCH)
    file(STRINGS "${DNNL_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h" line
         REGEX "define DNNL_VERSION_${part} +[0-9]+")
    string(REGEX MATCH "[0-9]+" number "${line}")
    list(APPEND DNNL_VERSION "${number}")
  endforeach()
  list(JOIN DNNL_VERSION "." DNNL_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(DNNL REQUIRED_VARS DNNL_LIBRARY DNNL_INCLUDE_DIR
                                  VERSION_VAR DNNL_VERSION)

if(DNNL_FOUND AND NOT TARGET DNNL::dnnl)
  add_library(DNNL::dnnl UNKNOWN IMPORTED)
  set_target_properties(DNNL::dnnl PROPERTIES
                        IMPORTED_LOCATION "${DNNL_LIBRARY}"
                        INTERFACE_INCLUDE_DIRECTORIES "${DNNL_INCLUDE_DIR}")
endif()
