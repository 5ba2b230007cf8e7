# SPDX-License-Identifier: Apache-2.0
# shardmark_commit(<target>): tells a program which commit it is built from (`git describe`), in a
# source of its own, so that a new commit compiles one small file. Without Git, or in an archive,
# the commit is empty.
function(shardmark_commit target)
  set(SHARDMARK_COMMIT "")
  find_package(Git QUIET)
  if(GIT_FOUND AND EXISTS "${PROJECT_SOURCE_DIR}/.git")
    execute_process(COMMAND "${GIT_EXECUTABLE}" describe --always --dirty --tags
                    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE SHARDMARK_COMMIT
                    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    # Configures again after a commit or a checkout.
    foreach(file HEAD logs/HEAD)
      if(EXISTS "${PROJECT_SOURCE_DIR}/.git/${file}")
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/.git/${file}")
      endif()
    endforeach()
  endif()
  configure_file("${PROJECT_SOURCE_DIR}/cmake/commit.cpp.in" "${CMAKE_CURRENT_BINARY_DIR}/commit.cpp" @ONLY)
  target_sources(${target} PRIVATE "${CMAKE_CURRENT_BINARY_DIR}/commit.cpp")
endfunction()
