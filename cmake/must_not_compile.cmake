# SPDX-License-Identifier: Apache-2.0
# CTest runs this script (cmake -P). It builds TARGET in BUILD_DIR and passes if that fails with an
# error that matches REGEX. A failure for any other reason, such as a missing header, does not pass.
execute_process(COMMAND ${CMAKE_COMMAND} --build ${BUILD_DIR} --target ${TARGET}
                RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(status EQUAL 0)
  message(FATAL_ERROR "${TARGET} compiles, but must not compile.\n${output}")
endif()
string(REGEX REPLACE "[ \t\r\n]+" " " flat "${output}")
if(NOT flat MATCHES "${REGEX}")
  message(FATAL_ERROR "${TARGET} fails to compile, but the error does not match '${REGEX}':\n${output}")
endif()
