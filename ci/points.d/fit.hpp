// SPDX-License-Identifier: Apache-2.0
// Few efficiencies of a machine file, fitted to a named subset of the points.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <ci/points.d/deck_of_point.hpp>

namespace shardmark::points {

/// The subset to which efficiencies are fitted: llm-foundry's models with hidden sizes 2048 (1b)
/// and 4096 (7b) on 8 GPUs, of each kind of GPU. All other points are predicted.
bool in_fit(const Point& point);

/// A point with its programs and machine.
struct Case {
  const Point* point = nullptr;
  std::vector<PricedDeck> decks;
  Machine machine;
};

/// The efficiencies (key in a machine file, value) that miss the cases least, as the root mean
/// square of log(predicted / measured): product_efficiency, stream_efficiency, attention_efficiency
/// (backward at 0.8 of it), and compute_share of the network within a node. `rms` is what remains.
std::vector<std::pair<std::string, double>> fit(std::vector<Case> cases, double& rms);

}  // namespace shardmark::points
