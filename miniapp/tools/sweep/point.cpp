// SPDX-License-Identifier: Apache-2.0
// Points, and their JSON, in which form a sweep stores them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <core/plan/interpret/print.hpp>
#include <miniapp/tools/sweep/point.hpp>

namespace shardmark {

std::int64_t PlanFigures::calls() const {
  return std::accumulate(step.begin(), step.end(), std::int64_t{0},
                         [](std::int64_t sum, const auto& op) { return sum + op.second.calls; });
}

std::int64_t PlanFigures::bytes() const {
  return std::accumulate(step.begin(), step.end(), std::int64_t{0},
                         [](std::int64_t sum, const auto& op) { return sum + op.second.bytes; });
}

std::int64_t PlanFigures::peak() const {
  std::int64_t sum = 0;
  for (Tier t : memory_tiers) {
    const CategoryBytes& tier = at_peak[t];
    sum = std::accumulate(tier.begin(), tier.end(), sum);
  }
  return sum;
}

bool PlanFigures::exceeds() const {
  return std::ranges::find(fits, std::optional(false)) != fits.end();
}

PlanFigures plan_figures(const Deck& deck, const Program& p, const Budgets& budgets) {
  PlanFigures f;
  f.stage = p.stage;
  f.schedule = to_string(p.schedule);
  f.parameters = p.model.parameters;
  f.layers = deck.model.layers;
  f.batch = p.batch;
  f.step = steady_volume(p);
  f.per_parameter = volume_per_parameter(p, f.step);
  f.allocated = allocated_bytes(p);
  const Footprint bytes = footprint(p);
  for (const Tier t : all_values<Tier>) {
    f.at_peak[t] = bytes.tiers[t].at_peak;
    f.budget[t] = budgets[t];
    if (budgets[t]) f.fits[t] = f.allocated[t] <= *budgets[t];
  }
  return f;
}

PredictedFigures predicted_figures(const PredictedPoint& p) {
  return {.step_s = p.step_s,
          .step_s_low = p.step_s_low,
          .step_s_high = p.step_s_high,
          .forward_s = p.priced.phase_s[Phase::forward],
          .backward_s = p.priced.phase_s[Phase::backward],
          .optimizer_s = p.priced.phase_s[Phase::step],
          .exposed_s = p.priced.exposed_s,
          .tokens_per_s = p.tokens_per_s,
          .limited_by = p.limited_by()};
}

RunFigures run_figures(const Deck& deck, const Result& r, double wall_s) {
  RunFigures f{r.slowest_times};
  f.slowest_rank = r.slowest_rank;
  f.tokens_per_s = r.tokens_per_s;
  f.step_p50_s = r.step_p50_s;
  f.step_p99_s = r.step_p99_s;
  const bool trained = deck.run.compute == Compute::train && !r.rows.empty();
  f.loss = trained ? r.rows.back().loss : std::numeric_limits<double>::quiet_NaN();
  for (const Tier t : all_values<Tier>) f.measured[t] = r.tiers[t].measured_peak;
  f.resident_peak = r.rss_peak_most;
  for (const auto& [op, c] : r.collectives) {
    f.calls += c.measured.calls;
    f.predicted_calls += c.predicted.calls;
  }
  f.wall_s = wall_s;
  return f;
}

namespace {

using OrderedJson = nlohmann::ordered_json;

std::string tier_name(Tier tier) {
  return std::string(to_string(tier));
}

CategoryBytes categories_of(const OrderedJson& json) {
  CategoryBytes bytes{};
  for (const Category c : all_values<Category>)
    bytes[c] = json.value(std::string(to_string(c)), std::int64_t{0});
  return bytes;
}

OrderedJson of_plan(const PlanFigures& f) {
  OrderedJson o = {{"stage", f.stage},
                   {"schedule", f.schedule},
                   {"parameters", f.parameters},
                   {"layers", f.layers},
                   {"train_batch_size", f.batch.global},
                   {"train_micro_batch_size_per_gpu", f.batch.micro},
                   {"gradient_accumulation_steps", f.batch.accumulation},
                   {"elems_per_parameter", f.per_parameter}};
  o["step"] = volume_json(f.step);
  for (const Tier t : all_values<Tier>) {
    OrderedJson tier = {{"allocated_bytes", f.allocated[t]},
                        {"at_peak_bytes", category_json(f.at_peak[t])}};
    if (f.fits[t]) tier["fits"] = *f.fits[t];
    if (f.budget[t]) tier["budget_bytes"] = *f.budget[t];
    o[tier_name(t)] = tier;
  }
  return o;
}

PlanFigures plan_of(const OrderedJson& o) {
  PlanFigures f;
  f.stage = o.at("stage");
  f.schedule = o.at("schedule");
  f.parameters = o.at("parameters");
  f.layers = o.at("layers");
  f.batch = {o.at("train_batch_size"), o.at("train_micro_batch_size_per_gpu"),
             o.at("gradient_accumulation_steps")};
  f.per_parameter = o.at("elems_per_parameter");
  for (int i = static_cast<int>(Op::all_gather); i <= static_cast<int>(Op::barrier); ++i) {
    const auto it = o.at("step").find(std::string(to_string(static_cast<Op>(i))));
    if (it != o.at("step").end())
      f.step[static_cast<Op>(i)] = {it->at("calls"), it->at("elems"), it->at("bytes")};
  }
  for (const Tier t : all_values<Tier>) {
    const OrderedJson& tier = o.at(tier_name(t));
    f.allocated[t] = tier.at("allocated_bytes");
    f.at_peak[t] = categories_of(tier.at("at_peak_bytes"));
    if (tier.contains("fits")) f.fits[t] = tier.at("fits").get<bool>();
    if (tier.contains("budget_bytes")) f.budget[t] = tier.at("budget_bytes").get<std::int64_t>();
  }
  return f;
}

OrderedJson of_run(const RunFigures& f) {
  OrderedJson o;
  for (const NamedReal& n : run_reals)  // JSON has no NaN
    o[n.name] = std::isfinite(f.*n.of) ? OrderedJson(f.*n.of) : OrderedJson(nullptr);
  for (const NamedCount& n : run_counts) o[n.name] = f.*n.of;
  for (const Tier t : all_values<Tier>) o[tier_name(t) + "_measured_bytes"] = f.measured[t];
  return o;
}

RunFigures run_of(const OrderedJson& o) {
  RunFigures f;
  for (const NamedReal& n : run_reals)
    f.*n.of = o.at(n.name).is_null() ? std::numeric_limits<double>::quiet_NaN()
                                     : o.at(n.name).get<double>();
  for (const NamedCount& n : run_counts) f.*n.of = o.at(n.name);
  for (const Tier t : all_values<Tier>) f.measured[t] = o.at(tier_name(t) + "_measured_bytes");
  return f;
}

OrderedJson of_predicted(const PredictedFigures& f) {
  OrderedJson o;
  for (const NamedPrediction& n : predicted_reals) o[n.name] = f.*n.of;
  o["limited_by"] = f.limited_by;
  return o;
}

PredictedFigures predicted_of(const OrderedJson& o) {
  PredictedFigures f;
  for (const NamedPrediction& n : predicted_reals) f.*n.of = o.at(n.name);
  f.limited_by = o.at("limited_by");
  return f;
}

}  // namespace

OrderedJson to_json(const SweepPoint& point) {
  OrderedJson values = OrderedJson::array();
  for (const auto& [key, value] : point.at.values) values.push_back({key, value});
  OrderedJson o = {{"ranks", point.at.ranks},
                   {"values", values},
                   {"state", to_string(point.state)},
                   {"status", static_cast<int>(point.status)},
                   {"reason", point.reason}};
  if (point.plan) o["plan"] = of_plan(*point.plan);
  if (point.run) o["run"] = of_run(*point.run);
  if (point.predicted) o["predicted"] = of_predicted(*point.predicted);
  return o;
}

SweepPoint point_of_json(const OrderedJson& o) {
  SweepPoint p;
  p.at.ranks = o.at("ranks");
  for (const OrderedJson& pair : o.at("values")) p.at.values.emplace_back(pair.at(0), pair.at(1));
  const std::string state = o.at("state");
  const auto is = std::ranges::find(value_names<SweepPoint::State>, state);
  if (is == value_names<SweepPoint::State>.end())
    throw IoError(fmt::format("\"{}\" is not a state of a point", state));
  p.state = static_cast<SweepPoint::State>(is - value_names<SweepPoint::State>.begin());
  p.status = static_cast<ExitStatus>(o.at("status").get<int>());
  p.reason = o.at("reason");
  if (o.contains("plan")) p.plan = plan_of(o.at("plan"));
  if (o.contains("run")) p.run = run_of(o.at("run"));
  if (o.contains("predicted")) p.predicted = predicted_of(o.at("predicted"));
  return p;
}

}  // namespace shardmark
