# SPDX-License-Identifier: Apache-2.0
# The dependencies between folders, and the form of every file; and that the rules find what is wrong.
add_test(NAME layout
         COMMAND ${CMAKE_COMMAND} -DROOT=${PROJECT_SOURCE_DIR}
                 -P ${PROJECT_SOURCE_DIR}/tests/layout/check.cmake)
add_test(NAME layout_finds_violations
         COMMAND ${CMAKE_COMMAND} -DSCRATCH=${PROJECT_BINARY_DIR}/layout_scratch
                 -P ${PROJECT_SOURCE_DIR}/tests/layout/check_finds.cmake)
set_tests_properties(layout layout_finds_violations PROPERTIES LABELS layout TIMEOUT 60)
