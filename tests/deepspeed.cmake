# SPDX-License-Identifier: Apache-2.0
# Held against recordings of DeepSpeed, and over a cover of its knobs.
shardmark_test(recorded_plan FILES deepspeed/recorded_plan_test.cpp LABELS deepspeed
               LIBS shardmark_io)
shardmark_test(recorded_run FILES deepspeed/recorded_run_test.cpp NP 2 3 4 LABELS deepspeed
               LIBS shardmark_app)
shardmark_test(knobs FILES deepspeed/knobs_test.cpp NP 1 2 3 4 LABELS deepspeed LIBS shardmark_app)
shardmark_test(offload FILES deepspeed/offload_test.cpp NP 1 2 3 4 LABELS deepspeed
               LIBS shardmark_app)
foreach(test IN ITEMS recorded_plan recorded_run)
  target_compile_definitions(test_${test} PRIVATE
    SHARDMARK_TEST_DATA="${CMAKE_CURRENT_SOURCE_DIR}/data")
endforeach()
