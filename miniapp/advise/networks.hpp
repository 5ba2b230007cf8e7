// SPDX-License-Identifier: Apache-2.0
// The verdict on networks: what each stage does on the same devices with another network between
// the nodes, where stage 3 costs nothing, and where it is slower than stage 0.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <core/enum_array.hpp>
#include <miniapp/advise/evaluate.hpp>

namespace shardmark {

inline constexpr int stage_count = 4;

struct NetworkRow {
  std::string network;
  std::array<std::optional<double>, stage_count> tokens_per_s;  // by stage; empty: refused
  std::array<bool, stage_count> fits{};
};

/// Tokens per second of the deck as it is, at stages 0 to 3, on the machine's devices joined by
/// NVLink (or the machine's own links) alone, by InfiniBand of 8 x 400 and 8 x 200 Gb/s per node,
/// by RoCE of 8 x 200 Gb/s, and by Ethernet of 100 and 25 Gb/s. Stages that do not fit in memory
/// are priced too.
std::vector<NetworkRow> network_rows(const AdviseCase& question);

/// A table, and for each network a sentence about stage 3.
std::string network_text(const std::vector<NetworkRow>& rows);

/// An SVG: tokens per second over networks, one line per stage.
std::string network_picture(const std::vector<NetworkRow>& rows, const std::string& title);

}  // namespace shardmark
