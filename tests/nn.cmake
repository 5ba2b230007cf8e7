# SPDX-License-Identifier: Apache-2.0
shardmark_test(nn
  FILES nn/reference_test.cpp nn/gradient_test.cpp nn/matmul_test.cpp nn/matmul_values_test.cpp
        nn/primitives_test.cpp nn/math_test.cpp nn/grad_norm_test.cpp nn/adamw_test.cpp nn/init_test.cpp nn/storage_test.cpp
        nn/determinism_test.cpp nn/sizes_test.cpp nn/sixteen_bit_test.cpp nn/attention_test.cpp
  LABELS nn LIBS shardmark_nn nlohmann_json::nlohmann_json)
target_compile_definitions(test_nn PRIVATE SHARDMARK_TEST_DATA="${CMAKE_CURRENT_SOURCE_DIR}/data")

# Rows as a GPU computes them, a warp each, without a GPU: all sources of rows.hpp in a second build,
# found before the library's.
set(row_kernels cross_entropy elementwise embedding grad_norm layer_norm rms_norm rotary storage)
list(TRANSFORM row_kernels REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/core/nn/\\1.cpp")
if(NOT SHARDMARK_ENABLE_CUDA)
  shardmark_test(nn_warps
    FILES nn/primitives_test.cpp nn/grad_norm_test.cpp nn/storage_test.cpp nn/gradient_test.cpp
          nn/reference_test.cpp nn/determinism_test.cpp nn/sixteen_bit_test.cpp nn/warps_test.cpp
          ${row_kernels}
    LABELS nn LIBS shardmark_nn nlohmann_json::nlohmann_json)
  target_compile_definitions(test_nn_warps PRIVATE SHARDMARK_ROWS_ARE_WARPS
    SHARDMARK_TEST_DATA="${CMAKE_CURRENT_SOURCE_DIR}/data")
endif()

# All that a GPU computes, without one: those rows, the native kernels compiled for the host, where a
# block's threads take turns (nn/device/block.cpp), and cuBLASLt's products on a stand-in for it.
if(SHARDMARK_CUDA_CODE AND NOT SHARDMARK_ENABLE_CUDA)
  set(cuda "${PROJECT_SOURCE_DIR}/core/nn/cuda")
  set_source_files_properties("${cuda}/attention.cu" PROPERTIES LANGUAGE CXX
                              COMPILE_OPTIONS "-xc++;-fno-strict-aliasing;-Wno-unknown-pragmas")
  shardmark_test(nn_native
    FILES nn/attention_test.cpp nn/matmul_values_test.cpp nn/reference_test.cpp nn/gradient_test.cpp
          nn/device/block.cpp nn/device/fake_cublaslt.cpp ${row_kernels} "${cuda}/attention.cu"
          "${cuda}/attention.cpp" "${cuda}/matmul.cpp" "${cuda}/product.cpp" "${cuda}/check.cpp"
    LABELS nn no_sanitize LIBS shardmark_nn nlohmann_json::nlohmann_json)
  target_compile_definitions(test_nn_native PRIVATE SHARDMARK_ROWS_ARE_WARPS SHARDMARK_TEST_ON_A_GPU
    SHARDMARK_TEST_DATA="${CMAKE_CURRENT_SOURCE_DIR}/data")
  # There is but one way to multiply bf16.
  set_tests_properties(nn_native PROPERTIES
                       ENVIRONMENT "OMP_NUM_THREADS=1;GTEST_FILTER=-*widened_products*:*RealShape*")
  target_include_directories(test_nn_native BEFORE PRIVATE nn/device)
  target_include_directories(test_nn_native SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
endif()

# Needs a GPU: skipped where there is none. That it links is seen in any case.
if(SHARDMARK_CUDA_CODE)
  add_test(NAME cuda_check COMMAND cuda_check)
  set_tests_properties(cuda_check PROPERTIES LABELS nn SKIP_RETURN_CODE 77)
endif()
