# SPDX-License-Identifier: Apache-2.0
shardmark_test(nn
  FILES nn/reference_test.cpp nn/gradient_test.cpp nn/matmul_test.cpp nn/primitives_test.cpp
        nn/math_test.cpp nn/grad_norm_test.cpp nn/adamw_test.cpp nn/init_test.cpp nn/storage_test.cpp
        nn/determinism_test.cpp nn/sizes_test.cpp nn/sixteen_bit_test.cpp nn/attention_test.cpp
  LABELS nn LIBS shardmark_nn nlohmann_json::nlohmann_json)
target_compile_definitions(test_nn PRIVATE SHARDMARK_TEST_DATA="${CMAKE_CURRENT_SOURCE_DIR}/data")

# The native kernels, compiled for the host: a block's threads take turns (nn/device/block.cpp).
if(SHARDMARK_CUDA_CODE AND NOT SHARDMARK_ENABLE_CUDA)
  set(kernels "${PROJECT_SOURCE_DIR}/core/nn/cuda/attention.cu")
  set_source_files_properties("${kernels}" PROPERTIES LANGUAGE CXX
                              COMPILE_OPTIONS "-xc++;-fno-strict-aliasing;-Wno-unknown-pragmas")
  shardmark_test(native_attention
    FILES nn/attention_test.cpp nn/device/block.cpp "${kernels}"
          "${PROJECT_SOURCE_DIR}/core/nn/cuda/attention.cpp"
    LABELS nn LIBS shardmark_nn TIMEOUT 900)  # minutes under sanitizers
  target_include_directories(test_native_attention BEFORE PRIVATE nn/device)
  target_include_directories(test_native_attention SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
endif()

# Rows as a GPU computes them, a warp each, without a GPU: all sources of rows.hpp in a second build,
# found before the library's.
if(NOT SHARDMARK_ENABLE_CUDA)
  set(row_kernels cross_entropy elementwise embedding grad_norm layer_norm rms_norm rotary storage)
  list(TRANSFORM row_kernels REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/core/nn/\\1.cpp")
  shardmark_test(nn_warps
    FILES nn/primitives_test.cpp nn/grad_norm_test.cpp nn/storage_test.cpp nn/gradient_test.cpp
          nn/reference_test.cpp nn/determinism_test.cpp nn/sixteen_bit_test.cpp nn/warps_test.cpp
          ${row_kernels}
    LABELS nn LIBS shardmark_nn nlohmann_json::nlohmann_json)
  target_compile_definitions(test_nn_warps PRIVATE SHARDMARK_ROWS_ARE_WARPS
    SHARDMARK_TEST_DATA="${CMAKE_CURRENT_SOURCE_DIR}/data")
endif()

# Needs a GPU: skipped where there is none. That it links is seen in any case.
if(SHARDMARK_CUDA_CODE)
  add_test(NAME cuda_check COMMAND cuda_check)
  set_tests_properties(cuda_check PROPERTIES LABELS nn SKIP_RETURN_CODE 77)
endif()
