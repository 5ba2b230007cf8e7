# SPDX-License-Identifier: Apache-2.0
# A namespace has one class of a name. Where two sources that never meet include two classes of one
# name, the linker keeps one set of their inline functions without a word, and the other source calls
# the wrong ones.

# Records the classes that a header defines in `class_<namespace>::<name>`.
function(layout_class_violations file text)
  if(NOT file MATCHES "^(core|comm|io|miniapp)/.*[.]hpp$")
    return()
  endif()
  string(REGEX MATCH "\nnamespace ([a-z_:]+) {" _ "${text}")
  set(space "${CMAKE_MATCH_1}")
  string(REGEX MATCHALL "\n(class|struct) [A-Za-z0-9_]+[^\n]*{" classes "${text}")
  foreach(line IN LISTS classes)
    string(REGEX MATCH "(class|struct) ([A-Za-z0-9_]+)(.*)" _ "${line}")
    set(name "${space}::${CMAKE_MATCH_2}")
    if(CMAKE_MATCH_3 MATCHES "^<")  # a specialization
      continue()
    endif()
    if(DEFINED "class_${name}" AND NOT "${class_${name}}" STREQUAL file)
      layout_found("${file}" "defines ${name}, as ${class_${name}} does: choose another name")
    endif()
    set("class_${name}" "${file}")
    set("class_${name}" "${file}" PARENT_SCOPE)
  endforeach()
  layout_return()
endfunction()
