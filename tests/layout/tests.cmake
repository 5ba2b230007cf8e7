# SPDX-License-Identifier: Apache-2.0
# The form of the tests.

# What stands in for a part of the program has that part's namespace.
set(layout_stand_ins "^tests/core/nn/gpu/stand_ins/|^tests/comm/nccl/fake_divide[.]cpp$")

# The code of tests is in the namespace shardmark::test. Each test file has a namespace of its own in
# it, because several are compiled as one.
function(layout_test_violations file text)
  if(NOT file MATCHES "^tests/.*[.](cpp|hpp)$" OR file MATCHES "${layout_stand_ins}")
    return()
  endif()
  set(wanted "shardmark::test(::[a-z0-9_]+)?")
  if(file MATCHES "/([a-z0-9_]+_test)[.]cpp$")
    set(wanted "shardmark::test::${CMAKE_MATCH_1}")
  endif()
  string(REGEX MATCHALL "\nnamespace [a-z0-9_:]+ {" spaces "${text}")
  foreach(space IN LISTS spaces)
    if(NOT space MATCHES "^\nnamespace ${wanted} {$")
      layout_found("${file}" "has a namespace other than ${wanted}")
    endif()
  endforeach()
  layout_return()
endfunction()

# Folders of sources whose tests are not in the folder of the same path below tests, and where those
# are.
set(layout_tested_elsewhere
  "comm/nccl/info: tests/ci/gpu"            # a program for machines with GPUs
  "comm/self: tests/comm"                   # every operation, beside the other back-ends
  "core/memory/gpu: tests/ci/gpu"          # needs a GPU
  "core/nn/gpu/check_program: tests/core/nn"  # is itself the test `cuda_check`
  "miniapp/planner: tests/kits"              # ci/kits/check python builds and runs it
  "miniapp: tests/miniapp/commands"         # main()
)

# Tests mirror the sources: a folder of sources has a test file in the folder of the same path below
# tests, and a folder of tests of the program has that of the sources. In a tree without such tests
# nothing is checked.
function(layout_mirror_violations root files)
  set(elsewhere "")
  foreach(row IN LISTS layout_tested_elsewhere)
    string(REGEX MATCH "^([^:]*): (.*)$" _ "${row}")
    list(APPEND elsewhere "${CMAKE_MATCH_1}")
    if(EXISTS "${root}/${CMAKE_MATCH_1}" AND NOT EXISTS "${root}/${CMAKE_MATCH_2}")
      layout_found("tests/layout/tests.cmake" "names ${CMAKE_MATCH_2}, which does not exist")
    endif()
  endforeach()
  set(sources ${files})
  list(FILTER sources INCLUDE REGEX "^(core|comm|io|miniapp)/.*[.](cpp|hpp|cu|cuh)$|^core/[a-z_]+[.]hpp$")
  list(TRANSFORM sources REPLACE "/[^/]*$" "")
  set(tests ${files})
  list(FILTER tests INCLUDE REGEX "^tests/(core|comm|io|miniapp)/.*_test[.]cpp$")
  list(TRANSFORM tests REPLACE "^tests/(.*)/[^/]*$" "\\1")
  if(NOT tests)
    return()
  endif()
  list(REMOVE_DUPLICATES sources)
  list(REMOVE_DUPLICATES tests)
  foreach(folder IN LISTS sources)
    if(NOT folder IN_LIST tests AND NOT folder IN_LIST elsewhere)
      layout_found("${folder}" "has no test in tests/${folder}, and no row of tests/layout/tests.cmake says where it is tested")
    elseif(folder IN_LIST tests AND folder IN_LIST elsewhere)
      layout_found("${folder}" "has tests in tests/${folder}, so its row of tests/layout/tests.cmake can go")
    endif()
  endforeach()
  foreach(folder IN LISTS tests)
    if(NOT folder IN_LIST sources)
      layout_found("tests/${folder}" "has tests, but there are no sources in ${folder}")
    endif()
  endforeach()
  layout_return()
endfunction()
