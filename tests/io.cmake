# SPDX-License-Identifier: Apache-2.0
# Decks, DeepSpeed configs, tokens and output. No rank count matters to any of them.
function(shardmark_io_test name)
  shardmark_test(${name} LIBS shardmark_io LABELS io ${ARGN})
  target_compile_definitions(test_${name} PRIVATE
                             SHARDMARK_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data")
endfunction()

shardmark_io_test(io_json FILES io/json_source_test.cpp io/hjson_test.cpp)
shardmark_io_test(io_deck FILES io/deck_test.cpp io/bad_deck_test.cpp io/bad_model_test.cpp io/override_test.cpp
                          io/deck_check_test.cpp io/deck_fuzz_test.cpp)
shardmark_io_test(io_deepspeed FILES io/deepspeed_config_test.cpp io/deepspeed_batch_test.cpp
                               io/deepspeed_spec_test.cpp io/deepspeed_effect_test.cpp)
shardmark_io_test(io_tokens FILES io/tokens_test.cpp)
shardmark_io_test(io_output FILES io/output_test.cpp)
shardmark_io_test(io_checkpoint FILES io/manifest_test.cpp io/swap_file_test.cpp io/checkpoint_folder_test.cpp
                              io/checkpoint_file_test.cpp io/far_memory_test.cpp)
shardmark_test(io_checkpoint_shared FILES io/checkpoint_shared_test.cpp NP 1 2 3 4 LABELS io
               LIBS shardmark_io)
