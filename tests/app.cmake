# SPDX-License-Identifier: Apache-2.0
shardmark_test(reference FILES app/reference_test.cpp NP 1 2 3 LABELS app LIBS shardmark_app)
shardmark_test(equality FILES app/equality_test.cpp NP 1 2 3 4 LABELS app LIBS shardmark_app)
target_compile_definitions(test_reference PRIVATE
  SHARDMARK_TEST_DATA="${CMAKE_CURRENT_SOURCE_DIR}/data")
