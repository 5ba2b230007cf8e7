# SPDX-License-Identifier: Apache-2.0
# cmake -DROOT=<repository> -P check.cmake: fails and lists everything that breaks the layout rules.
# Without ROOT it checks the repository that contains this file.
cmake_minimum_required(VERSION 3.25)
if(NOT DEFINED ROOT)
  set(ROOT "${CMAKE_CURRENT_LIST_DIR}/../..")
endif()
cmake_path(ABSOLUTE_PATH ROOT NORMALIZE)
include("${CMAKE_CURRENT_LIST_DIR}/rules.cmake")
layout_violations("${ROOT}" violations)
if(violations)
  list(JOIN violations "\n  " text)
  message(FATAL_ERROR "These break the layout (tests/layout/rules.cmake):\n  ${text}")
endif()
