# SPDX-License-Identifier: Apache-2.0
shardmark_test(reference FILES app/reference_test.cpp NP 1 2 3 LABELS app LIBS shardmark_app)
target_compile_definitions(test_reference PRIVATE
  SHARDMARK_TEST_DATA="${CMAKE_CURRENT_SOURCE_DIR}/data")
shardmark_test(equality FILES app/equality_test.cpp NP 1 2 3 4 LABELS app LIBS shardmark_app)
shardmark_test(shard_size FILES app/shard_size_test.cpp NP 1 2 3 4 LABELS app LIBS shardmark_app)
shardmark_test(sixteen_bits FILES app/sixteen_bit_test.cpp NP 1 2 3 LABELS app LIBS shardmark_app)
shardmark_test(executor FILES app/executor_test.cpp app/late_copies_test.cpp app/disk_lane_test.cpp
               NP 1 2 3 4 LABELS app LIBS shardmark_app)
shardmark_test(beneath FILES app/beneath_test.cpp comm/mpi_counter.cpp NP 1 2 3 4 LABELS app
               LIBS shardmark_app)
shardmark_test(heap FILES app/heap_test.cpp NP 1 2 LABELS app no_sanitize LIBS shardmark_app)
shardmark_test(kernels FILES app/kernels_test.cpp NP 1 LABELS app no_sanitize LIBS shardmark_app)
shardmark_test(overlap FILES app/overlap_test.cpp NP 2 LABELS app full LIBS shardmark_app)
shardmark_test(provenance FILES app/provenance_test.cpp LABELS app LIBS shardmark_app)
shardmark_test(page FILES app/page_test.cpp app/device_figure_test.cpp LABELS app LIBS shardmark_app)
shardmark_test(sweep FILES app/sweep_test.cpp LABELS app LIBS shardmark_app)
shardmark_test(told FILES app/told_test.cpp LABELS app LIBS shardmark_app)
shardmark_test(trace FILES app/trace_test.cpp NP 1 2 3 4 LABELS app LIBS shardmark_app)
shardmark_test(checkpoint FILES app/checkpoint_test.cpp NP 1 2 3 4 LABELS app LIBS shardmark_app)
# Restarts on other ranks, stages, schedules, layouts and types: few rows that cover all pairs, and many.
foreach(rows IN ITEMS 0 200)
  set(name checkpoint_cover)
  set(labels app)
  if(rows GREATER 0)
    set(name checkpoint_cover_full)
    set(labels app full)
  endif()
  shardmark_test(${name} FILES app/checkpoint_cover_test.cpp NP 4 LABELS ${labels}
                 LIBS shardmark_app TIMEOUT 1200)
  target_compile_definitions(test_${name} PRIVATE SHARDMARK_TEST_ROWS=${rows})
endforeach()
