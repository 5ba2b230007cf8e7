// SPDX-License-Identifier: Apache-2.0
// The results of one point of a sweep as plain values: the figures of its plan, and of its run.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include <core/error.hpp>
#include <core/plan/interpret/footprint.hpp>
#include <core/plan/interpret/volume.hpp>
#include <core/plan/plan.hpp>
#include <miniapp/measure/result.hpp>
#include <miniapp/tools/sweep/grid.hpp>

namespace shardmark {

/// Figures of rank 0 in a step of the steady state.
struct PlanFigures {
  int stage = 0;
  std::string schedule;
  std::int64_t parameters = 0, layers = 0;
  Batch batch;
  Volume step;
  double per_parameter = 0;                     // elements that volume_per_parameter() counts
  EnumArray<Tier, std::int64_t> allocated{};    // the arena, or the peak (strict)
  EnumArray<Tier, CategoryBytes> at_peak{};     // sums to the live peak
  EnumArray<Tier, std::optional<bool>> fits{};  // empty if there is no budget
  Budgets budget{};                             // of a rank, bytes

  std::int64_t calls() const;  // collectives per step
  std::int64_t bytes() const;  // that they move per step, as nccl-tests counts them
  std::int64_t peak() const;   // live bytes of both tiers, each at its own peak
  bool exceeds() const;        // one of the budgets that there are
};

/// The figures of report.json. Seconds are those of one timed step on the rank that spends most
/// time without waiting: it waits for no other rank, so what is exposed there is communication.
struct RunFigures : TimeResult {
  double tokens_per_s = 0, step_p50_s = 0, step_p99_s = 0;
  double loss = 0;                              // of the last step; NaN: none
  EnumArray<Tier, std::int64_t> measured{};     // bytes allocated at the peak
  std::int64_t slowest_rank = 0;                // whose seconds these are
  std::int64_t resident_peak = 0;               // of the largest process, bytes
  std::int64_t calls = 0, predicted_calls = 0;  // collectives of the whole run
  double wall_s = 0;                            // from reading the deck to the report
};

/// What a machine file predicts, with --machine. Seconds are those of one step.
struct PredictedFigures {
  double step_s = 0, step_s_low = 0, step_s_high = 0;
  double forward_s = 0, backward_s = 0, optimizer_s = 0, exposed_s = 0;
  double tokens_per_s = 0;
  std::string limited_by;
};

/// One point of a sweep, with what is known about it.
struct SweepPoint {
  enum class State : std::uint8_t { planned, valid, invalid, refused };
  GridPoint at;
  State state = State::planned;
  ExitStatus status = ExitStatus::valid;
  StopCause stop = StopCause::none;  // of a run that was stopped; not kept in files
  std::string reason = {};           // why it is invalid or was refused
  std::optional<PlanFigures> plan = {};
  std::optional<RunFigures> run = {};
  std::optional<PredictedFigures> predicted = {};
};
template<>
inline constexpr auto value_names<SweepPoint::State> = name_list("planned", "VALID", "INVALID",
                                                                 "refused");

/// A figure by its name in files. Everything that reads or writes figures uses these lists.
template<class Figures, class Value>
struct NamedFigure {
  const char* name;
  Value Figures::*of;
};
using NamedReal = NamedFigure<RunFigures, double>;
using NamedCount = NamedFigure<RunFigures, std::int64_t>;
using NamedPrediction = NamedFigure<PredictedFigures, double>;

inline constexpr NamedReal run_reals[] = {{"step_p50_s", &RunFigures::step_p50_s},
                                          {"step_p99_s", &RunFigures::step_p99_s},
                                          {"forward_s", &RunFigures::forward},
                                          {"backward_s", &RunFigures::backward},
                                          {"optimizer_s", &RunFigures::optimizer},
                                          {"copies_s", &RunFigures::copies},
                                          {"matmul_s", &RunFigures::matmul},
                                          {"exposed_s", &RunFigures::exposed},
                                          {"hidden_s", &RunFigures::hidden},
                                          {"tokens_per_s", &RunFigures::tokens_per_s},
                                          {"loss", &RunFigures::loss},
                                          {"wall_s", &RunFigures::wall_s}};
inline constexpr NamedCount run_counts[] = {{"slowest_rank", &RunFigures::slowest_rank},
                                            {"resident_peak_bytes", &RunFigures::resident_peak},
                                            {"run_calls", &RunFigures::calls},
                                            {"run_predicted_calls", &RunFigures::predicted_calls}};
inline constexpr NamedPrediction predicted_reals[] = {
    {"predicted_step_s", &PredictedFigures::step_s},
    {"predicted_step_s_low", &PredictedFigures::step_s_low},
    {"predicted_step_s_high", &PredictedFigures::step_s_high},
    {"predicted_forward_s", &PredictedFigures::forward_s},
    {"predicted_backward_s", &PredictedFigures::backward_s},
    {"predicted_optimizer_s", &PredictedFigures::optimizer_s},
    {"predicted_exposed_s", &PredictedFigures::exposed_s},
    {"predicted_tokens_per_s", &PredictedFigures::tokens_per_s}};

/// The figures of a point that a plan gives, and those that a run gives.
PlanFigures plan_figures(const Deck& deck, const Program& program, const Budgets& budgets);
PredictedFigures predicted_figures(const PredictedPoint& point);
RunFigures run_figures(const Deck& deck, const Result& result, double wall_s);

nlohmann::ordered_json to_json(const SweepPoint& point);
/// The reverse of to_json. Throws nlohmann::json::exception or Error if `json` is anything else.
SweepPoint point_of_json(const nlohmann::ordered_json& json);

}  // namespace shardmark
