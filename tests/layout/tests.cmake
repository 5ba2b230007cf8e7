# SPDX-License-Identifier: Apache-2.0
# The form of the tests.

# What stands in for a part of the program has that part's namespace.
set(layout_stand_ins "^tests/core/nn/cuda/stand_ins/|^tests/comm/nccl/fake_divide[.]cpp$")

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
