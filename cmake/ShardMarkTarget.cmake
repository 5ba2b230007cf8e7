# SPDX-License-Identifier: Apache-2.0
# shardmark_unity(<target> <group>…): compiles many sources as one file, because otherwise most of
# the time is spent reading headers. A group is <name>=<regular expression of paths that are relative
# to the folder of the CMakeLists.txt>. A source belongs to the first group that matches it; sources
# that match no group form a group per folder. Two sources of one group must not use a name for
# different things in their anonymous namespaces. -DSHARDMARK_UNITY=OFF compiles each source by itself,
# as ci/full does, so that no source relies on the includes of another one. SHARDMARK_BY_ITSELF lists
# sources (paths below the top) that are compiled by themselves in any case: ci/mutate changes them one
# after the other.
function(shardmark_unity target)
  if(NOT SHARDMARK_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" OUTPUT_VARIABLE path)
    cmake_path(RELATIVE_PATH path BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE from_top)
    if(from_top IN_LIST SHARDMARK_BY_ITSELF)
      set_source_files_properties("${source}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
      continue()
    endif()
    cmake_path(RELATIVE_PATH path BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
    cmake_path(GET path PARENT_PATH group)
    foreach(pair IN LISTS ARGN)
      string(REGEX MATCH "^([a-z0-9_]+)=(.+)$" pair "${pair}")
      set(name "${CMAKE_MATCH_1}")
      if(path MATCHES "${CMAKE_MATCH_2}")
        set(group "${name}")
        break()
      endif()
    endforeach()
    string(MAKE_C_IDENTIFIER "${group}" group)
    set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "${group}")
  endforeach()
endfunction()

# shardmark_target(<target> [HOST_ONLY | KOKKOS <source>…] [UNITY <group>…] [OPTIMIZE <level>]): sets
# what all targets of ShardMark have in common. There are no global flags. A GPU build compiles sources
# that do not include Kokkos with the host's compiler, which is several times faster than nvcc:
# HOST_ONLY means the whole target, KOKKOS means all sources except these. OPTIMIZE is the optimization
# of a Release build where CMake's -O3 does not pay: 1 for what runs once or waits for others, g for
# text and tests, which compile in half of the time.
function(shardmark_target target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "HOST_ONLY" "OPTIMIZE" "KOKKOS;UNITY")
  shardmark_unity(${target} ${arg_UNITY})
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  target_include_directories(${target} PUBLIC "${PROJECT_SOURCE_DIR}")
  # At -O3, GCC 12 warns about copies inside std::string (its bug 105651, fixed in 13).
  set(false_alarms "")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    set(false_alarms -Wno-restrict)
  endif()
  # GCC otherwise spends a tenth of its time on collecting garbage; a group needs up to 800 MiB anyway.
  set(memory_of_compiler "")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT SHARDMARK_ENABLE_GPU)
    set(memory_of_compiler --param=ggc-min-expand=100 --param=ggc-min-heapsize=600000)
  endif()
  # Flags for Kokkos' nvcc_wrapper: constexpr functions work on the device, and there, too,
  # multiply-adds are fused only where the code asks for that.
  if(SHARDMARK_ENABLE_HIP)
    set(host_only -x c++)  # hipcc would compile C++ for the device, too
  else()
    set(host_only --host-only)
  endif()
  if(SHARDMARK_ENABLE_GPU AND arg_HOST_ONLY)
    list(JOIN host_only " " host_only)
    target_compile_options(${target} PRIVATE "SHELL:${host_only}")
  elseif(SHARDMARK_ENABLE_GPU)
    if(SHARDMARK_ENABLE_CUDA)
      target_compile_options(${target} PRIVATE --expt-relaxed-constexpr --fmad=false)
      # fmt 9 treats nvcc as a C++ 11 compiler and then fails to compile.
      target_compile_definitions(${target} PRIVATE FMT_USE_CONSTEXPR=1 FMT_CONSTEVAL=)
    endif()
    if(arg_KOKKOS)
      get_target_property(host_sources ${target} SOURCES)
      list(TRANSFORM arg_KOKKOS PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
      list(REMOVE_ITEM host_sources ${arg_KOKKOS})
      set_source_files_properties(${host_sources} PROPERTIES COMPILE_OPTIONS "${host_only}")
    endif()
  endif()
  # -ffp-contract=off gives the same bits in every build and at every vector length of a kernel. The
  # multiply-adds that the code fuses (core/nn/kernels/math.hpp) are instructions since x86-64-v3,
  # and function calls before.
  set(processor "")
  if(SHARDMARK_NATIVE)
    set(processor -march=native)
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set(processor -march=x86-64-v3)
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    set(processor -march=armv8.2-a)
  endif()
  if(SHARDMARK_ENABLE_HIP AND processor)
    set(processor "SHELL:-Xarch_host ${processor}")
  endif()
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wshadow -Wnon-virtual-dtor
                                           -Werror=switch
                                           -ffp-contract=off
                                           ${false_alarms}
                                           ${memory_of_compiler}
                                           $<$<BOOL:${SHARDMARK_WERROR}>:-Werror>
                                           ${processor})
  if(SHARDMARK_ENABLE_CUDA AND arg_OPTIMIZE STREQUAL "g")
    set(arg_OPTIMIZE 1)  # nvcc knows numbers only
  endif()
  if(arg_OPTIMIZE)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O${arg_OPTIMIZE}>)
  endif()
  if(SHARDMARK_SANITIZE)
    target_compile_options(${target} PUBLIC -fsanitize=address,undefined
                                            -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
    target_link_options(${target} PUBLIC -fsanitize=address,undefined)
  endif()
  if(SHARDMARK_FUZZ)
    target_compile_options(${target} PUBLIC -fsanitize=fuzzer-no-link)
  endif()
endfunction()

# shardmark_gpu_target(<target>): sets what all targets of .cu files have in common: CUDA C++ 20 or HIP,
# and no automatic fusing of multiply-adds. nvcc_wrapper sets the standard itself.
function(shardmark_gpu_target target)
  target_include_directories(${target} PUBLIC "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${target} PUBLIC shardmark_gpu_headers)
  if(SHARDMARK_ENABLE_HIP)  # Kokkos knows the architecture
    target_compile_features(${target} PRIVATE cxx_std_20)
    target_compile_options(${target} PRIVATE -ffp-contract=off "SHELL:-x hip")
    target_link_libraries(${target} PRIVATE Kokkos::kokkos)
    return()
  endif()
  # CMake 3.25 does not know CUDA20. nvcc_wrapper counts as a C++ compiler, so the compile feature
  # sets its standard.
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20> --fmad=false
                                           --expt-relaxed-constexpr)
endfunction()
