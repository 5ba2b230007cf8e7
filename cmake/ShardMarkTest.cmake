# SPDX-License-Identifier: Apache-2.0
# shardmark_test(<name> FILES <source>… [LIBS <target>…] [NP <ranks>…] [LABELS <label>…]
#                [TIMEOUT <seconds, default 300; five times that under the sanitizers>])
#
# Adds the GoogleTest executable `test_<name>`. With NP it has the main function for MPI and is
# registered once per rank count, as `<name>.np<ranks>`, under mpiexec; without NP it has the serial
# main function and is registered as `<name>`. Both initialise Kokkos. A run in which no test ran
# fails. Only ci/full runs tests with the label `full`.
#
# shardmark_must_not_compile(<name> FILE <source> REGEX <message> [LIBS <target>…])
#
# Adds a test that compiles one file and passes if that fails with an error that matches REGEX.

# Ranks spin while they wait, so two MPI tests at the same time on few cores slow each other down.
# Therefore a test takes as many of CTest's slots as it has ranks, and all slots if there are no
# more than that.
include(ProcessorCount)
ProcessorCount(shardmark_cores)

function(shardmark_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "FILES;LIBS;NP;LABELS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_FILES)
    message(FATAL_ERROR "shardmark_test(${name}): needs FILES; not understood: "
                        "'${arg_UNPARSED_ARGUMENTS}'")
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  if(SHARDMARK_SANITIZE)
    math(EXPR arg_TIMEOUT "5 * ${arg_TIMEOUT}")
  endif()

  set(main main.cpp)
  if(arg_NP)
    set(main mpi_main.cpp)
  endif()
  set(target test_${name})
  add_executable(${target} ${arg_FILES} "${PROJECT_SOURCE_DIR}/tests/support/${main}")
  shardmark_target(${target})
  set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
  target_compile_definitions(${target} PRIVATE SHARDMARK_TESTS="${PROJECT_SOURCE_DIR}/tests")
  target_link_libraries(${target} PRIVATE ${arg_LIBS} GTest::gtest Kokkos::kokkos fmt::fmt)
  if(arg_NP)
    target_link_libraries(${target} PRIVATE MPI::MPI_CXX)
    foreach(ranks IN LISTS arg_NP)
      add_test(NAME ${name}.np${ranks}
               COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks}
                       ${MPIEXEC_PREFLAGS} $<TARGET_FILE:${target}> ${MPIEXEC_POSTFLAGS})
      set_tests_properties(${name}.np${ranks} PROPERTIES
                           LABELS "${arg_LABELS};mpi" TIMEOUT ${arg_TIMEOUT} PROCESSORS ${ranks}
                           ENVIRONMENT OMP_NUM_THREADS=1)
      if(ranks GREATER_EQUAL shardmark_cores)
        set_tests_properties(${name}.np${ranks} PROPERTIES RUN_SERIAL ON)
      endif()
    endforeach()
  else()
    add_test(NAME ${name} COMMAND ${target})
    set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT}
                                    ENVIRONMENT OMP_NUM_THREADS=1)
  endif()
endfunction()

function(shardmark_must_not_compile name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "FILE;REGEX" "LIBS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_FILE OR NOT arg_REGEX)
    message(FATAL_ERROR "shardmark_must_not_compile(${name}): needs FILE and REGEX; not understood: "
                        "'${arg_UNPARSED_ARGUMENTS}'")
  endif()
  # Never part of a normal build: the test builds this target and checks the compiler's message.
  set(target must_not_compile_${name})
  add_library(${target} OBJECT EXCLUDE_FROM_ALL ${arg_FILE})
  shardmark_target(${target})
  target_link_libraries(${target} PRIVATE ${arg_LIBS})
  add_test(NAME ${target}
           COMMAND ${CMAKE_COMMAND} -DBUILD_DIR=${PROJECT_BINARY_DIR} -DTARGET=${target}
                   -DREGEX=${arg_REGEX}
                   -P ${PROJECT_SOURCE_DIR}/cmake/must_not_compile.cmake)
  # Two builds in one folder would wait for each other's lock or break the folder.
  set_tests_properties(${target} PROPERTIES LABELS must_not_compile TIMEOUT 300
                       RESOURCE_LOCK build_folder)
endfunction()
