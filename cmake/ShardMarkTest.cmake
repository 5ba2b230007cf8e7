# SPDX-License-Identifier: Apache-2.0
# shardmark_test(<name> FILES <source>… [LIBS <target>…] [NP <ranks>…] [LABELS <label>…] [ALONE]
#                [TIMEOUT <seconds, default 300; five times that under the sanitizers>]
#                [ENVIRONMENT <variable=value>…] [DEPENDS <target that the tests open or start>…])
#
# Registers tests of GoogleTest. With NP they have the main function for MPI and are registered once
# per rank count, as `<name>.np<ranks>`, under mpiexec; without NP they have the serial main function
# and are registered as `<name>`. Both initialise Kokkos. A run in which no test ran fails. Only
# ci/full runs tests with the label `full`.
#
# Tests with the same LIBS and the same main function share an executable, because compiling headers
# and linking would take most of the time otherwise. CTest runs those of its tests that are in FILES.
# Several files are compiled as one, so each test file has a namespace of its own, named like the
# file. ALONE gives the tests an executable of their own. The target test_<name> builds what a test
# needs in both cases.
#
# shardmark_must_not_compile(<name> FILE <source> REGEX <message> [LIBS <target>…])
#
# Adds a test that compiles one file and passes if that fails with an error that matches REGEX.

# Where tests look for their data when they run; a relative path for tests that run elsewhere.
set(SHARDMARK_TEST_THREADS 1 CACHE STRING "OpenMP threads per rank in the tests")
set(SHARDMARK_TESTS_AT "${PROJECT_SOURCE_DIR}/tests" CACHE STRING "Folder of the tests' data")
mark_as_advanced(SHARDMARK_TESTS_AT)

# Ranks spin while they wait, so two MPI tests at the same time on few cores slow each other down.
# Therefore a test takes as many of CTest's slots as it has ranks, and all slots if there are no
# more than that.
include(ProcessorCount)
ProcessorCount(shardmark_cores)

# What every program of tests shares is compiled once, and so are the two main functions.
add_library(shardmark_test_support STATIC "${PROJECT_SOURCE_DIR}/tests/support/select_files.cpp"
                                          "${PROJECT_SOURCE_DIR}/tests/support/pattern.cpp")
shardmark_target(shardmark_test_support OPTIMIZE g)
target_link_libraries(shardmark_test_support PUBLIC GTest::gtest)
foreach(main main mpi_main)
  add_library(shardmark_test_${main} OBJECT "${PROJECT_SOURCE_DIR}/tests/support/${main}.cpp")
  shardmark_target(shardmark_test_${main} OPTIMIZE g)
  target_link_libraries(shardmark_test_${main} PUBLIC shardmark_test_support Kokkos::kokkos)
endforeach()
target_sources(shardmark_test_mpi_main PRIVATE "${PROJECT_SOURCE_DIR}/tests/support/patient_mpi.cpp")
target_link_libraries(shardmark_test_mpi_main PUBLIC MPI::MPI_CXX)

# Sets what all executables of tests have in common. Tests only call the libraries, which are compiled
# for speed.
function(shardmark_test_executable target)
  shardmark_target(${target} OPTIMIZE g)
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE BATCH UNITY_BUILD_BATCH_SIZE 10)
endfunction()

# Adds an executable with its main function and libraries, and without files.
function(shardmark_test_program target main)
  add_executable(${target})
  shardmark_test_executable(${target})
  target_compile_definitions(${target} PRIVATE SHARDMARK_TESTS="${SHARDMARK_TESTS_AT}")
  target_link_libraries(${target} PRIVATE ${ARGN} shardmark_test_${main} fmt::fmt)
endfunction()

function(shardmark_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "ALONE" "TIMEOUT" "FILES;LIBS;NP;LABELS;ENVIRONMENT;DEPENDS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_FILES OR NOT arg_LIBS)
    message(FATAL_ERROR "shardmark_test(${name}): needs FILES and LIBS; not understood: "
                        "'${arg_UNPARSED_ARGUMENTS}'")
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  if(SHARDMARK_SANITIZE)
    math(EXPR arg_TIMEOUT "5 * ${arg_TIMEOUT}")
  endif()

  set(main main)
  if(arg_NP)
    set(main mpi_main)
  endif()
  set(target test_${name})
  if(NOT arg_ALONE)
    list(GET arg_LIBS 0 library)
    string(REPLACE "shardmark_" "" library "${library}")
    set(target tests_of_${library}_with_${main})
    add_custom_target(test_${name} DEPENDS ${target})
  endif()
  if(NOT TARGET ${target})
    shardmark_test_program(${target} ${main} ${arg_LIBS})
  endif()
  if(arg_DEPENDS)
    add_dependencies(${target} ${arg_DEPENDS})
  endif()

  set(arguments "")
  foreach(file IN LISTS arg_FILES)
    cmake_path(ABSOLUTE_PATH file NORMALIZE)
    cmake_path(RELATIVE_PATH file BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE path)
    if(path MATCHES "_test[.]cpp$")
      list(APPEND arguments "${path}")
    else()
      # A file that replaces functions of a library has macros and names of its own, so it is
      # compiled by itself.
      set_source_files_properties("${file}" TARGET_DIRECTORY ${target} PROPERTIES
                                  SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
    get_target_property(sources ${target} SOURCES)
    if(NOT file IN_LIST sources)
      target_sources(${target} PRIVATE "${file}")
    endif()
  endforeach()
  list(JOIN arguments "," arguments)
  set(arguments "--files=${arguments}")
  if(arg_ALONE)
    set(arguments "")
  endif()

  foreach(ranks IN LISTS arg_NP)
    add_test(NAME ${name}.np${ranks}
             COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} ${MPIEXEC_PREFLAGS}
                     $<TARGET_FILE:${target}> ${arguments} ${MPIEXEC_POSTFLAGS})
    set_tests_properties(${name}.np${ranks} PROPERTIES
                         LABELS "${arg_LABELS};mpi" TIMEOUT ${arg_TIMEOUT} PROCESSORS ${ranks}
                         ENVIRONMENT "OMP_NUM_THREADS=${SHARDMARK_TEST_THREADS};${arg_ENVIRONMENT}")
    if(ranks GREATER_EQUAL shardmark_cores)
      set_tests_properties(${name}.np${ranks} PROPERTIES RUN_SERIAL ON)
    endif()
  endforeach()
  if(NOT arg_NP)
    add_test(NAME ${name} COMMAND ${target} ${arguments})
    set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT}
                                    ENVIRONMENT "OMP_NUM_THREADS=${SHARDMARK_TEST_THREADS};${arg_ENVIRONMENT}")
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
