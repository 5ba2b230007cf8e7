// SPDX-License-Identifier: Apache-2.0
// A deck's step time on a machine, for given numbers of ranks.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <core/plan/deck/deck.hpp>
#include <core/plan/price/price.hpp>
#include <miniapp/predict/memory_fit.hpp>

namespace shardmark {

/// A resource, and the part by which a step gets shorter if the resource is 10 % faster.
struct Sensitivity {
  Resource resource = Resource::products;
  double gain = 0;
};

/// What a deck does on a machine with `ranks` ranks. Seconds are those of one optimizer step.
struct PredictedPoint {
  int ranks = 1, ranks_per_node = 1;
  bool timed = false;  // a deck that does not fit has no time, unless it was asked for
  /// The interval holds 9 of 10 steps, wherever the cores of the machine are (Placement).
  std::int64_t parameters = 0, layers = 0;  // of the model; no layers: a list
  double step_s = 0, step_s_low = 0, step_s_high = 0;
  double tokens = 0, tokens_per_s = 0;  // a list's sample counts as one token
  std::optional<double> mfu, hfu;       // of the peak of the model's type; empty: no peak is known
  PricedStep priced;                    // of rank 0
  std::vector<Sensitivity> sensitivities;  // largest first
  std::vector<std::string> extrapolates;   // sentences
  std::vector<std::string> notes;          // sentences about what is assumed or unusual
  MemoryFit memory;
  Program program;  // of rank 0

  /// The name of the most limiting resource.
  std::string limited_by() const;
};

/// A prediction of a run, made before it.
struct Prediction {
  std::string file;           // the machine file
  std::string standing;       // what its figures stand on
  double core_to_core_s = 0;  // of the placement in which it is made; 0: the mean over all
  PredictedPoint point;
};

/// Whether a deck that does not fit in the machine's memory gets a time.
enum class UnfitTime : std::uint8_t { none, predicted };

/// Predicts the steady step of `deck` on `ranks` ranks; `model.fit` must have been applied. Throws
/// DeckError if the deck does not suit them.
PredictedPoint predict_point(const Deck& deck, const Machine& machine, int ranks,
                             int ranks_per_node, UnfitTime unfit = UnfitTime::none);

/// The time alone, of a program that was built already, for example that of a run. Other ranks'
/// programs are built from the deck. `memory` is left empty.
PredictedPoint predict_program(const Deck& deck, const Program& program, const Machine& machine,
                               int ranks_per_node);

/// `own`, and the programs of the other ranks whose plans take another time.
std::vector<Program> distinct_programs(const Deck& deck, Program own, int ranks_per_node);
/// How long a step takes, and on what the compute lane of the first program's rank spends it.
struct StepTime {
  double seconds = 0;
  Cost critical;
};
/// The step_s of predict_program, for what distinct_programs returns.
StepTime step_time(const Deck& deck, std::span<const Program> programs, const Machine& machine,
                   int ranks_per_node);

/// Predictions of a run: the first one stands on means over all placements of the machine, and one
/// for each placement follows.
std::vector<Prediction> predict_run(const Deck& deck, const Program& program,
                                    const Machine& machine, const std::string& file,
                                    int ranks_per_node);
/// The one of them that comes closest to what a run measured; 0: unknown.
const Prediction& in_placement(const std::vector<Prediction>& predictions, double core_to_core_s);

/// How the steps of `deck` are priced: with what it emulates.
PriceOptions price_options(const Deck& deck, int ranks_per_node);

/// A point as `predict --format json` and report.json print it.
nlohmann::ordered_json point_json(const PredictedPoint& point);
/// Adds "memory_at_peak": {tier: {category: bytes}}, "volume": {op: {"calls", "elems", "bytes"}}
/// and "per_parameter" to `json`.
void add_cost(nlohmann::ordered_json& json, const PredictedPoint& point);

/// Kinds of memory, of which each has several categories: "states" (param, grad, master, momentum,
/// variance), "activations", "buffers" (bucket, gathered, staging), "workspaces".
struct MemoryKind {
  std::string_view name;
  std::int64_t (*bytes)(const CategoryBytes& at_peak);
};
extern const std::array<MemoryKind, 4> memory_kinds;

/// What a machine file's figures stand on: one sentence.
std::string standing(const Machine& machine);

/// The page's and the terminal's text.
std::string prediction_text(const Deck& deck, const Machine& machine,
                            const std::vector<PredictedPoint>& points);

}  // namespace shardmark
