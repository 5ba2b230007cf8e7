# SPDX-License-Identifier: Apache-2.0
# Kokkos comes from a pinned release on request; otherwise from its own CMake config if that works;
# otherwise from FindKokkos.cmake.
if(SHARDMARK_FETCH_KOKKOS)
  include(ShardMarkFetchKokkos)
else()
  # Some distributions install a config that names folders that do not exist, which no property of
  # its targets shows. Therefore a small project is compiled with it first.
  if(NOT DEFINED SHARDMARK_KOKKOS_CONFIG_WORKS)
    message(CHECK_START "Trying Kokkos' own CMake config")
    # The project is configured in a separate process, because a broken config would even stop
    # try_compile().
    set(probe "${PROJECT_BINARY_DIR}/CMakeFiles/kokkos_probe")
    set(probe_flags "")
    foreach(variable CMAKE_CXX_COMPILER CMAKE_MAKE_PROGRAM CMAKE_PREFIX_PATH Kokkos_DIR Kokkos_ROOT)
      if(${variable})
        string(REPLACE ";" "\\;" value "${${variable}}")
        list(APPEND probe_flags "-D${variable}=${value}")
      endif()
    endforeach()
    execute_process(COMMAND ${CMAKE_COMMAND} -G ${CMAKE_GENERATOR} ${probe_flags} -B ${probe}
                            -S "${CMAKE_CURRENT_LIST_DIR}/kokkos_probe"
                    RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
    if(status EQUAL 0)
      execute_process(COMMAND ${CMAKE_COMMAND} --build ${probe}
                      RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
    endif()
    if(status EQUAL 0)
      set(works ON)
      message(CHECK_PASS "works")
    else()
      set(works OFF)
      message(CHECK_FAIL "absent or broken, looking for headers and libraries instead")
    endif()
    set(SHARDMARK_KOKKOS_CONFIG_WORKS ${works} CACHE INTERNAL "Kokkos' own CMake config works")
  endif()
  if(SHARDMARK_KOKKOS_CONFIG_WORKS)
    find_package(Kokkos CONFIG QUIET)
    set(SHARDMARK_KOKKOS_FROM "${Kokkos_DIR}")
  else()
    find_package(Kokkos MODULE QUIET)
    set(SHARDMARK_KOKKOS_FROM "${Kokkos_INCLUDE_DIR}")
  endif()
  shardmark_require("Kokkos" Kokkos_FOUND "libtrilinos-kokkos-dev (newer releases: libkokkos-dev, with clang also libomp-dev)")
endif()
