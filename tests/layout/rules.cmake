# SPDX-License-Identifier: Apache-2.0
# layout_violations(<root> <variable>): returns the list of everything in the tree at <root> that
# breaks the rules of its layout, "file: rule" each. Every file is read once. The rules are
# functions of these files:
#   rooms.cmake       which folder may include which
#   includes.cmake    includes, and what reaches Kokkos
#   files.cmake       SPDX lines, folders, the version
#   classes.cmake     names of classes
#   references.cmake  files, links, commands, tests and deck keys that texts name
#   recipes.cmake     what the recipes of CONTRIBUTING.md name
#   tests.cmake       the form of the tests
include("${CMAKE_CURRENT_LIST_DIR}/rooms.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/includes.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/files.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/classes.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/references.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/recipes.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/tests.cmake")

function(layout_violations root out)
  layout_room_table_violations(found)
  file(GLOB_RECURSE files RELATIVE "${root}" "${root}/core/*" "${root}/comm/*" "${root}/io/*"
       "${root}/miniapp/*" "${root}/tests/*" "${root}/cmake/*" "${root}/ci/*" "${root}/.ci/*"
       "${root}/docs/*" "${root}/inputs/*.json" "${root}/inputs/*.md")
  file(GLOB top RELATIVE "${root}" "${root}/CMakeLists.txt" "${root}/*.md" "${root}/CITATION.cff"
       "${root}/.pre-commit-config.yaml" "${root}/.clang-tidy" "${root}/Doxyfile")
  list(APPEND files ${top})
  layout_read_facts("${root}" "${files}")

  foreach(file IN LISTS files)
    # Brackets and semicolons would split CMake's lists.
    file(READ "${root}/${file}" text)
    string(REPLACE "](" "@link(" text "${text}")
    string(REGEX REPLACE "[][;]" " " text "${text}")
    layout_file_violations("${file}" "${text}")
    if(file MATCHES "[.](cpp|hpp|cu|cuh)$")
      layout_include_violations("${file}" "${text}")
      layout_class_violations("${file}" "${text}")
      layout_test_violations("${file}" "${text}")
    endif()
    layout_reference_violations("${root}" "${file}" "${text}")
    layout_recipe_violations("${root}" "${file}" "${text}")
  endforeach()
  layout_kokkos_violations("${root}" "${files}")
  layout_folder_violations("${root}" "${files}")
  layout_mirror_violations("${root}" "${files}")
  layout_version_violations("${root}")
  set(${out} "${found}" PARENT_SCOPE)
endfunction()

# layout_found(<file> <rule>): records one more violation. It is a macro, so that `found` is its
# caller's variable.
macro(layout_found file rule)
  list(APPEND found "${file}: ${rule}")
endmacro()

# layout_return(): passes the violations that a rule has found to its caller.
macro(layout_return)
  set(found "${found}" PARENT_SCOPE)
endmacro()
