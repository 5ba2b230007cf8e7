# SPDX-License-Identifier: Apache-2.0
# An installation contains what users need and no headers, can be moved, and finds its decks by name
# from any folder.
#   cmake -DBUILD=<build folder> -DSCRATCH=<folder> -P check.cmake
file(REMOVE_RECURSE "${SCRATCH}")
file(MAKE_DIRECTORY "${SCRATCH}/elsewhere")
execute_process(COMMAND "${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${SCRATCH}/first"
                OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
set(prefix "${SCRATCH}/moved")
file(RENAME "${SCRATCH}/first" "${prefix}")

foreach(file bin/shardmark share/shardmark/inputs/gpt-tiny-z3.json share/shardmark/inputs/text.txt
             share/doc/shardmark/README.md share/doc/shardmark/docs/decks.md share/man/man1/shardmark.1
             share/bash-completion/completions/shardmark share/zsh/site-functions/_shardmark
             share/fish/vendor_completions.d/shardmark.fish)
  if(NOT EXISTS "${prefix}/${file}")
    message(SEND_ERROR "not installed: ${file}")
  endif()
endforeach()
file(GLOB_RECURSE surplus "${prefix}/*.hpp" "${prefix}/*.a" "${prefix}/*.cmake")
if(surplus)
  message(SEND_ERROR "installed, but of no use to users: ${surplus}")
endif()

# Runs the installed program in another folder; its output must match a regular expression.
function(expect regex)
  execute_process(COMMAND "${prefix}/bin/shardmark" ${ARGN} WORKING_DIRECTORY "${SCRATCH}/elsewhere"
                  OUTPUT_VARIABLE out ERROR_VARIABLE err RESULT_VARIABLE status)
  if(NOT status EQUAL 0 OR NOT out MATCHES "${regex}")
    message(SEND_ERROR "shardmark ${ARGN}: status ${status}, not matched: ${regex}\n${out}${err}")
  endif()
endfunction()
expect("gpt-tiny-z3 +A GPT of" decks)
expect("all_gather" plan gpt-tiny-z3 --ranks 2)
expect("^shardmark [0-9.]+\n" --version)

# A deck that is given by name does not write into the installation.
execute_process(COMMAND "${prefix}/bin/shardmark" plan checkpoint-8b --ranks 2
                WORKING_DIRECTORY "${SCRATCH}/elsewhere" OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
file(GLOB_RECURSE written "${prefix}/share/shardmark/*checkpoints*")
if(written)
  message(SEND_ERROR "written into the installation: ${written}")
endif()
file(REMOVE_RECURSE "${SCRATCH}")
