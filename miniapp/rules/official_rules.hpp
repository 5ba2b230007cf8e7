// SPDX-License-Identifier: Apache-2.0
// The numbers of the run rules. docs/run-rules.md explains them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace shardmark {

/// The least that an official figure needs; docs/valid.md lists all requirements.
struct OfficialRules {
  static constexpr int warmup = 3, steps = 20;  // of training
  static constexpr int timed_s = 60;            // seconds
  static constexpr int runs = 5;                // repetitions, of which the median is ranked
  // What advice asks for, in multiples of the required seconds: the pace of a few steps is not that
  // of a whole run.
  static constexpr double margin = 1.5;
  // The storage benchmark.
  // Either the writes take as long as IO500's write phases, in seconds, or there are as many of
  // checkpoints of the full size as in MLPerf Storage.
  static constexpr int writing_s = 300, full_checkpoints = 10;
  // Each node's part of a checkpoint, in its memory, from which no page cache can serve the reads.
  // The factor is that of MLPerf Storage, rule 4.3.1 (checkpointDataSizeRatio), which counts all
  // writes; here all reads are of one checkpoint.
  static constexpr int memory_multiple = 3;
};

/// A model of the storage decks at its full size.
struct FullSize {
  std::string_view deck;
  std::int64_t parameters;
};

/// Llama 3.1 at its published shapes (layers, hidden, kv heads, ffn; 128256 tokens): 8B (32, 4096,
/// 8, 14336), 70B (80, 8192, 8, 28672) and 405B (126, 16384, 8, 53248), heads of 128.
inline constexpr std::array full_sizes{FullSize{"checkpoint-8b", 8'030'261'248},
                                       FullSize{"checkpoint-70b", 70'553'706'496},
                                       FullSize{"checkpoint-405b", 405'853'388'800}};

/// A checkpoint in bf16 under Adam: 2 bytes of the parameter, and 4 each of its master, momentum
/// and variance. This gives MLPerf Storage's checkpoints of 105 GiB, 0.9 TiB and 5.2 TiB.
inline constexpr std::int64_t full_bytes_per_parameter = 14;

/// The bytes of states in a checkpoint of the deck's model at its full size; 0 for another deck.
constexpr std::int64_t full_checkpoint_bytes(std::string_view deck) {
  for (const FullSize& size : full_sizes)
    if (size.deck == deck) return size.parameters * full_bytes_per_parameter;
  return 0;
}

}  // namespace shardmark
