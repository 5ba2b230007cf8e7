# SPDX-License-Identifier: Apache-2.0
# layout_violations(<root> <variable>): the list of what in the tree at <root> breaks the rules of its
# layout, "file: rule" each. The dependencies between folders are those of README, "Layout".

# What a file of its folder may not include, as a regular expression; empty: anything may be.
function(layout_forbidden_includes file out)
  set(network "mpi[.]h|mpi_|mpicxx|nccl|hdf5|H5|highfive")
  set(${out} "" PARENT_SCOPE)
  if(file MATCHES "^core/plan/")
    set(${out} "^(Kokkos|KokkosCore|core/kokkos_shim|dnnl|oneapi|${network}|core/memory/|core/nn/|comm/|io/|miniapp/|tests/)"
        PARENT_SCOPE)
  elseif(file MATCHES "^core/memory/")
    set(${out} "^(dnnl|oneapi|${network}|core/nn/|comm/|io/|miniapp/|tests/)" PARENT_SCOPE)
  elseif(file MATCHES "^core/")
    set(${out} "^(${network}|comm/|io/|miniapp/|tests/)" PARENT_SCOPE)
  elseif(file MATCHES "^comm/")
    set(${out} "^(dnnl|oneapi|hdf5|H5|highfive|core/nn/|io/|miniapp/|tests/)" PARENT_SCOPE)
  elseif(file MATCHES "^io/")
    set(${out} "^(dnnl|oneapi|nccl|core/nn/|comm/|miniapp/|tests/)" PARENT_SCOPE)
  elseif(file MATCHES "^miniapp/")
    set(${out} "^(tests/)" PARENT_SCOPE)
  endif()
endfunction()

function(layout_violations root out)
  set(found "")
  file(GLOB_RECURSE sources RELATIVE "${root}" "${root}/core/*" "${root}/comm/*" "${root}/io/*"
       "${root}/miniapp/*" "${root}/tests/*" "${root}/cmake/*" "${root}/ci/*" "${root}/.ci/*"
       "${root}/inputs/*.json" "${root}/inputs/*.md")
  file(GLOB top RELATIVE "${root}" "${root}/CMakeLists.txt" "${root}/*.md")
  foreach(file IN LISTS sources top)
    # Read as text with brackets and semicolons made harmless to CMake's lists.
    file(READ "${root}/${file}" text)
    string(REGEX REPLACE "[][;]" " " text "${text}")

    if(file MATCHES "[.](cpp|hpp|cmake|supp)$|CMakeLists[.]txt$|^[.]?ci/[a-z]+$")
      string(SUBSTRING "${text}" 0 200 head)
      if(NOT head MATCHES "SPDX-License-Identifier: Apache-2.0")
        list(APPEND found "${file}: no SPDX line at its top")
      endif()
    endif()
    # A path of one person's machine helps nobody else.
    if(text MATCHES "(^|[ \"'=(:,\n])(/(home|root|work|Users|scratch|mnt)/[A-Za-z0-9._/-]+)")
      list(APPEND found "${file}: names a path of one machine: ${CMAKE_MATCH_2}")
    endif()

    if(file MATCHES "[.](cpp|hpp)$")
      if(file MATCHES "[.]hpp$" AND NOT text MATCHES "\n#pragma once\n")
        list(APPEND found "${file}: no #pragma once")
      endif()
      layout_forbidden_includes("${file}" forbidden)
      string(REGEX MATCHALL "\n[ \t]*#[ \t]*include[ \t]*[<\"][^>\"\n]*[>\"]" includes "\n${text}")
      foreach(line IN LISTS includes)
        string(REGEX MATCH "([<\"])([^>\"]*)" _ "${line}")
        set(quote "${CMAKE_MATCH_1}")
        set(header "${CMAKE_MATCH_2}")
        if(quote STREQUAL "\"" AND NOT file MATCHES "^tests/")
          list(APPEND found "${file}: \"${header}\" is included in quotes, not as <folder/file.hpp>")
        endif()
        if(forbidden AND header MATCHES "${forbidden}")
          list(APPEND found "${file}: may not include <${header}>")
        endif()
      endforeach()
    endif()
  endforeach()
  set(${out} "${found}" PARENT_SCOPE)
endfunction()
