# SPDX-License-Identifier: Apache-2.0
# Finds Kokkos by its headers and libraries, for installations whose own CMake config is missing or
# broken (such as Debian's). Defines Kokkos::kokkos, Kokkos_FOUND, Kokkos_VERSION and Kokkos_OPENMP.
# Builds by Trilinos prefix the library names with "trilinos_" and have their headers in a
# subfolder.

find_path(Kokkos_INCLUDE_DIR Kokkos_Core.hpp PATH_SUFFIXES kokkos trilinos)
mark_as_advanced(Kokkos_INCLUDE_DIR)

# Newer releases are split into more libraries. All releases have kokkoscore; the others may be
# absent.
set(Kokkos_LIBRARIES "")
foreach(part core containers algorithms simd)
  find_library(Kokkos_${part}_LIBRARY NAMES kokkos${part} trilinos_kokkos${part})
  mark_as_advanced(Kokkos_${part}_LIBRARY)
  if(Kokkos_${part}_LIBRARY)
    list(APPEND Kokkos_LIBRARIES "${Kokkos_${part}_LIBRARY}")
  endif()
endforeach()

set(Kokkos_VERSION "")
set(Kokkos_OPENMP OFF)
# Debian installs the generated header beside the other headers.
if(Kokkos_INCLUDE_DIR AND EXISTS "${Kokkos_INCLUDE_DIR}/KokkosCore_config.h")
  file(STRINGS "${Kokkos_INCLUDE_DIR}/KokkosCore_config.h" kokkos_config
       REGEX "^#define KOKKOS_(VERSION|ENABLE_OPENMP)( |$)")
  foreach(line IN LISTS kokkos_config)
    if(line MATCHES "KOKKOS_VERSION +([0-9]+)")
      math(EXPR major "${CMAKE_MATCH_1} / 10000")
      math(EXPR minor "${CMAKE_MATCH_1} / 100 % 100")
      math(EXPR patch "${CMAKE_MATCH_1} % 100")
      set(Kokkos_VERSION "${major}.${minor}.${patch}")
    elseif(line MATCHES "KOKKOS_ENABLE_OPENMP")
      set(Kokkos_OPENMP ON)
    endif()
  endforeach()
endif()
if(Kokkos_OPENMP)
  # Kokkos_Core.hpp does not compile without the compiler's OpenMP flag.
  find_package(OpenMP QUIET COMPONENTS CXX)
endif()

include(FindPackageHandleStandardArgs)
set(kokkos_needs Kokkos_INCLUDE_DIR Kokkos_core_LIBRARY)
if(Kokkos_OPENMP)
  list(APPEND kokkos_needs OpenMP_CXX_FOUND)
endif()
find_package_handle_standard_args(Kokkos REQUIRED_VARS ${kokkos_needs}
                                  VERSION_VAR Kokkos_VERSION)

if(Kokkos_FOUND AND NOT TARGET Kokkos::kokkos)
  find_package(Threads REQUIRED)
  add_library(Kokkos::kokkos INTERFACE IMPORTED)
  target_include_directories(Kokkos::kokkos INTERFACE "${Kokkos_INCLUDE_DIR}")
  target_link_libraries(Kokkos::kokkos INTERFACE ${Kokkos_LIBRARIES} Threads::Threads
                                                 ${CMAKE_DL_LIBS})
  if(Kokkos_OPENMP)
    target_link_libraries(Kokkos::kokkos INTERFACE OpenMP::OpenMP_CXX)
  endif()
endif()
