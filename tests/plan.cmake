# SPDX-License-Identifier: Apache-2.0
shardmark_test(plan
  FILES plan/model_shape_test.cpp plan/check_test.cpp plan/paper_test.cpp plan/compute_test.cpp
        plan/golden_test.cpp plan/large_test.cpp plan/types_test.cpp plan/deepspeed_test.cpp
        plan/estimators_test.cpp plan/lr_schedule_test.cpp plan/loss_scale_test.cpp
        plan/arena_test.cpp plan/fit_test.cpp
  LABELS plan LIBS shardmark_plan)
target_compile_definitions(test_plan PRIVATE
  SHARDMARK_TEST_DATA="${CMAKE_CURRENT_SOURCE_DIR}/data"
  SHARDMARK_TEST_GOLDEN="${CMAKE_CURRENT_SOURCE_DIR}/golden")
