# SPDX-License-Identifier: Apache-2.0
# The program of SHARDMARK_PLANNER: the commands that plan, predict, advise, check and verify, which
# need neither MPI, HDF5, oneDNN nor Kokkos. Commands that run or measure are replaced by those of
# miniapp/planner, which say what is missing. Included by miniapp/CMakeLists.txt.
file(GLOB_RECURSE planner_sources RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}" CONFIGURE_DEPENDS *.cpp)
set(planner_folders charts commands energy planner predict report rules tools/advise tools/compare tools/submission
                    tools/sweep)
list(JOIN planner_folders "|" planner_folders)
# Single sources of folders that otherwise belong to runs.
set(planner_files
  execute/event_name
  measure/deepspeed_comms_log measure/device_figure measure/figures_of_merit
  measure/reference measure/timings measure/verdict
  prove/[a-z]+_result
  provenance/environment provenance/fatal_signals provenance/machine
  provenance/version
  ranks/launcher ranks/peers
  run/budgets run/progress
  )
list(JOIN planner_files "|" planner_files)
list(FILTER planner_sources INCLUDE REGEX "^((${planner_folders})/|(${planner_files})[.]cpp$)")
list(FILTER planner_sources EXCLUDE REGEX "^commands/run_commands[.]cpp$")
list(TRANSFORM planner_sources PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
# What a plan needs to know of this machine's memory.
set(memory "${PROJECT_SOURCE_DIR}/core/memory")
list(APPEND planner_sources "${memory}/budget.cpp" "${memory}/device_memory.cpp"
     "${memory}/process_memory.cpp")

add_library(shardmark_app STATIC ${planner_sources})
shardmark_target(shardmark_app HOST_ONLY OPTIMIZE 0
                 UNITY charts=charts/ "commands=(commands|predict)/" "tools=tools/(advise|sweep)/" report=.)
target_link_libraries(shardmark_app PUBLIC shardmark_plan shardmark_io PRIVATE fmt::fmt CLI11::CLI11)
target_compile_definitions(shardmark_app PRIVATE
  SHARDMARK_VERSION=${PROJECT_VERSION}
  SHARDMARK_COMPILER_ID=${CMAKE_CXX_COMPILER_ID}
  SHARDMARK_COMPILER_VERSION=${CMAKE_CXX_COMPILER_VERSION})

add_executable(shardmark main.cpp)
shardmark_target(shardmark HOST_ONLY OPTIMIZE g)
shardmark_commit(shardmark)
target_link_libraries(shardmark PRIVATE shardmark_app)
set_target_properties(shardmark PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
