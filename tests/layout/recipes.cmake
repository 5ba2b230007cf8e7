# SPDX-License-Identifier: Apache-2.0
# The recipes of CONTRIBUTING.md name the files to touch, and in each file what to look for. A step is a
# list item that begins with a file: "1. `io/deck/deck_sections.cpp`: add a call in `read_run`." Every other
# `word` of the step that is no path must occur in that file.

function(layout_recipe_violations root file text)
  if(NOT file STREQUAL "CONTRIBUTING.md")
    return()
  endif()
  # Lines that are indented continue a step.
  string(REGEX REPLACE "\n +" " " text "${text}")
  string(REGEX MATCHALL "\n([0-9]+[.]|[*-]) `[^\n]*" steps "\n${text}")
  foreach(step IN LISTS steps)
    string(REGEX MATCHALL "`[^`]+`" words "${step}")
    string(REPLACE "`" "" words "${words}")
    list(POP_FRONT words target)
    if(NOT target MATCHES "/|[.](md|txt)$")
      continue()
    elseif(NOT EXISTS "${root}/${target}" OR IS_DIRECTORY "${root}/${target}")
      layout_found("${file}" "a recipe names ${target}, which is not a file")
      continue()
    endif()
    file(READ "${root}/${target}" content)
    string(REGEX REPLACE "[][;]" " " content "${content}")
    foreach(word IN LISTS words)
      string(FIND "${content}" "${word}" at)
      if(at EQUAL -1 AND NOT word MATCHES "/")
        layout_found("${file}" "a recipe says that ${target} contains ${word}, which it does not")
      endif()
    endforeach()
  endforeach()
  layout_return()
endfunction()
