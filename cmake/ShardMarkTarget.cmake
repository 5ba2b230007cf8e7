# SPDX-License-Identifier: Apache-2.0
# shardmark_target(<target>): what every target of ours has in common. No global flags.
function(shardmark_target target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  target_include_directories(${target} PUBLIC "${PROJECT_SOURCE_DIR}")
  # GCC 12 warns of std::string's own copies at -O3 (its bug 105651, fixed in 13).
  set(false_alarms "")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    set(false_alarms -Wno-restrict)
  endif()
  # -ffp-contract=off: the same bits from every build and from every vector length of a kernel.
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wshadow -Wnon-virtual-dtor
                                           -ffp-contract=off
                                           ${false_alarms}
                                           $<$<BOOL:${SHARDMARK_WERROR}>:-Werror>
                                           $<$<BOOL:${SHARDMARK_NATIVE}>:-march=native>)
  if(SHARDMARK_SANITIZE)
    target_compile_options(${target} PUBLIC -fsanitize=address,undefined
                                            -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
    target_link_options(${target} PUBLIC -fsanitize=address,undefined)
  endif()
endfunction()

# shardmark_cuda_target(<target>): what every target of .cu files has in common. CUDA C++ 20, no fused
# multiply-add, as everywhere.
function(shardmark_cuda_target target)
  target_include_directories(${target} PUBLIC "${PROJECT_SOURCE_DIR}")
  target_include_directories(${target} SYSTEM PUBLIC ${CUDAToolkit_INCLUDE_DIRS})
  target_compile_options(${target} PRIVATE -std=c++20 --fmad=false)  # CMake 3.25 knows no CUDA20
endfunction()
