// SPDX-License-Identifier: Apache-2.0
// The verdict on networks: what each stage does on the same devices with another network between
// the nodes, where stage 3 costs nothing, and where it is slower than stage 0.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <core/enum_array.hpp>
#include <miniapp/tools/advise/evaluate.hpp>

namespace shardmark {

inline constexpr int stage_count = 4;

/// What the stages do with one network.
struct NetworkRow {
  std::string network;
  std::array<std::optional<double>, stage_count> tokens_per_s;  // empty: refused, or does not fit
};

/// What the deck as it is does at each stage and with each network.
struct NetworkTable {
  Deck deck;  // under a schedule of the framework
  Batch batch;
  std::int64_t parameters = 0;
  std::array<Candidate, stage_count> stages;  // on the machine's own network
  std::vector<NetworkRow> rows;
};

/// Tokens per second of the deck as it is, at stages 0 to 3, on the machine's devices joined by
/// NVLink (or the machine's own links) alone, by InfiniBand of 8 x 400 and 8 x 200 Gb/s per node,
/// by RoCE of 8 x 200 Gb/s, and by Ethernet of 100 and 25 Gb/s. A stage that does not fit in memory
/// has no rate. Throws DeckError.
NetworkTable network_table(const AdviseCase& question);

}  // namespace shardmark
