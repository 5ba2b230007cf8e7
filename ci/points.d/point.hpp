// SPDX-License-Identifier: Apache-2.0
// A published measurement of training steps with its configuration.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <core/plan/price/machine.hpp>

namespace shardmark::points {

struct PublishedModel {
  std::string family;
  std::int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, ffn = 0, vocab = 0, sequence = 0;
  bool tied_head = false;
};

struct Point {
  std::string source, gpu, network, strategy, precision, gather_dtype, reduce_dtype, quality;
  std::optional<std::string> recomputation;  // empty: not published
  PublishedModel model;
  Software software;  // what the source's kernels are
  int gpus = 1, gpus_per_node = 8;
  std::int64_t micro_batch = 0, global_batch = 0;  // sequences; 0: not published
  double step_s = 0;  // measured; 0: the source does not allow to derive it
  bool poor() const { return quality == "poor"; }
  bool recomputes_blocks() const { return recomputation && recomputation->starts_with("full"); }
};

/// Reads a file of the form {"points": [{"source", "model": {…}, "gpus", …}]}. Throws DeckError for
/// a file that is not of this form, in one line.
std::vector<Point> read_points(const std::string& path);

/// "llm-foundry 7b…" for people: "h4096 L32 s2048, micro-batch 6".
std::string describe(const Point& point);

}  // namespace shardmark::points
