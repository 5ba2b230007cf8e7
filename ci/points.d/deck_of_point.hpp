// SPDX-License-Identifier: Apache-2.0
// A deck for each published measurement, and the machine file on which it ran.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <ci/points.d/point.hpp>

#include <core/plan/plan.hpp>
#include <core/plan/price/machine.hpp>

namespace shardmark::points {

/// Why a point is not predicted: model parallelism, for example. Empty: it is.
std::string reason_to_skip(const Point& point);

/// The part of the forward pass that runs again during backward: 0 for "none", 1 for "full", a
/// number in the text of a selective one, else 1/2 for a selective one. Empty: not published.
std::optional<double> recomputed_part(const Point& point);

/// The text of a deck that trains the point's model as the point says, with micro-batches of
/// `micro` sequences and with or without recomputation.
std::string deck_text_of(const Point& point, bool recompute, std::int64_t micro);

/// Returns the name of a machine file with the point's GPU and any network. The name is empty if no
/// machine file has that GPU.
std::string hardware_of(const Point& point);

/// Returns the name of the machine file in inputs/machines, or an empty text if this GPU has none.
std::string machine_file_of(const Point& point);

/// The machine of a point: the file's, with the network and the software that the point names.
Machine machine_of(const Point& point, Machine machine);

/// A point's program, and how its tokens relate to those that the source counts.
struct PricedDeck {
  Program program;
  double scale = 1;   // of the step, where the source's micro-batches are not whole
  double weight = 1;  // of this program in the prediction; those of a point add up to 1
};

/// Programs of a point: one, or two where a part is recomputed, weighted by that part. Where the
/// source does not say whether it recomputes, it does not if the plan then fits the device, with
/// the published micro-batch or one that fits; otherwise the weights are equal. Writes the decks
/// into `folder`, where they stay.
std::vector<PricedDeck> programs_of(const Point& point, const Machine& machine,
                                    const std::string& folder, const std::string& name);

/// A step of a point: its time, and the part of it in which the host of eager software limits it.
struct PredictedStep {
  double seconds = 0, host_share = 0;
};

/// Returns the weighted mean of both over the programs.
PredictedStep predicted_step(const Point& point, const std::vector<PricedDeck>& decks,
                             const Machine& machine);

}  // namespace shardmark::points
