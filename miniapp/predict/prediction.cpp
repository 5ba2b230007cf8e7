// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <iterator>
#include <set>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <core/plan/build/legal_program.hpp>
#include <core/plan/interpret/print.hpp>
#include <core/plan/price/event_costs.hpp>
#include <core/plan/price/step_interval.hpp>
#include <core/plan/work/step_work.hpp>
#include <core/random.hpp>
#include <core/text.hpp>
#include <io/deepspeed/config.hpp>
#include <miniapp/predict/prediction.hpp>

namespace shardmark {
namespace {

constexpr double asked_speed = 1.1;

// Equal for ranks whose plans take the same time.
std::uint64_t signature(const Program& program) {
  std::uint64_t hash = 0;
  for (const Segment& s : program.segments)
    if (s.kind != SegmentKind::init)
      for (const Event& e : s.events)
        for (const std::int64_t part :
             {static_cast<std::int64_t>(e.op), static_cast<std::int64_t>(e.kernel), e.elems,
              static_cast<std::int64_t>(e.dtype), std::int64_t{e.group},
              std::int64_t{e.operands.count > 0 ? program.operands[e.operands.first].elems : 0}})
          hash = splitmix64(hash ^ static_cast<std::uint64_t>(part));
  return hash;
}

// The plans of ranks that differ from `own`. Where ranks have equal shards, no rank differs from
// its neighbour or from the last one; elsewhere each rank may have a plan of its own.
std::vector<Program> other_classes(const Deck& deck, const Program& own, int ranks_per_node) {
  std::vector<Program> others;
  std::set<int> planned{own.rank};
  std::set<std::uint64_t> known{signature(own)};
  const Profile profile{.ranks_per_node = ranks_per_node};
  const auto plan = [&](int rank) {
    if (rank >= own.world || !planned.insert(rank).second) return;
    Program other = build_program(deck, own.batch, own.world, rank, profile);
    if (known.insert(signature(other)).second) others.push_back(std::move(other));
  };
  for (const int rank : {0, 1, own.world - 1}) plan(rank);
  if (others.empty()) return others;
  for (const int rank : ranks_to_check(own)) plan(rank);
  return others;
}

// The step of the slowest rank, whose own work takes longer by the factor of stragglers; the
// network does not get slower by them.
double slowest(const std::vector<PricedStep>& ranks, double stragglers) {
  double step = 0;
  for (const PricedStep& r : ranks)
    step = std::max(step, r.step_s + (stragglers - 1) * std::max(0.0, r.step_s - r.exposed_s));
  return step;
}

// What the step is, before anybody asks how long it takes.
PredictedPoint untimed_point(const Deck& deck, const Program& program, int ranks_per_node) {
  PredictedPoint p;
  p.ranks = program.world;
  p.ranks_per_node = std::min(program.world, ranks_per_node);
  if (const int last = p.ranks % p.ranks_per_node; last != 0)
    p.notes.push_back(fmt::format("{} are no multiple of the {} of a node: the last node has {}",
                                  plural(p.ranks, "rank"), p.ranks_per_node, last));
  p.parameters = program.model.parameters;
  p.layers = deck.model.layers;
  p.tokens = static_cast<double>(program.batch.global) *
             static_cast<double>(std::max<std::int64_t>(1, deck.model.sequence));
  return p;
}

// Fills `extrapolates`, and returns how many times the point lies beyond what was measured or
// fitted, at most.
double say_what_is_beyond(const Deck& deck, const Program& program, const Machine& machine,
                          PredictedPoint& p) {
  double most = 1;
  for (const auto& [what, times] : p.priced.extrapolations) {
    p.extrapolates.push_back(fmt::format("{}: {:.3g} times beyond what was measured", what, times));
    most = std::max(most, times);
  }
  const std::int64_t hidden = deck.run.compute == Compute::train ? program.model.spec.hidden : 0;
  for (const BeyondFit& beyond : beyond_fit(machine.provenance.fitted_on, hidden, program.world,
                                            program.precision.computes_in())) {
    p.extrapolates.push_back(beyond.what);
    most = std::max(most, beyond.times);
  }
  return most;
}

}  // namespace

std::string PredictedPoint::limited_by() const {
  return sensitivities.empty() ? "nothing" : std::string(to_string(sensitivities.front().resource));
}

PredictedPoint predict_program(const Deck& deck, const Program& program, const Machine& machine,
                               int ranks_per_node) {
  const std::vector<Program> others = other_classes(deck, program, ranks_per_node);
  std::vector<const Program*> ranks{&program};
  for (const Program& other : others) ranks.push_back(&other);
  PriceOptions options = price_options(deck, ranks_per_node);
  PredictedPoint p = untimed_point(deck, program, ranks_per_node);
  p.timed = true;
  std::vector<PricedStep> priced = price(ranks, machine, options);
  const double stragglers = straggler_factor(machine, program.world, ranks_per_node);
  p.step_s = slowest(priced, stragglers);
  p.priced = std::move(priced.front());
  const double beyond = say_what_is_beyond(deck, program, machine, p);
  const auto interval = step_interval(machine, beyond, p.priced.host_share());
  const auto include = [&](double step_s) {
    p.step_s_low = std::min(p.step_s_low, step_s * std::max(0.0, 1 - interval.below));
    p.step_s_high = std::max(p.step_s_high, step_s * (1 + interval.above));
  };
  p.step_s_low = p.step_s;
  include(p.step_s);
  for (const Placement& placement : machine.placements)
    include(slowest(price(ranks, in_placement(machine, placement.core_to_core_s), options),
                    stragglers));
  if (p.step_s > 0) p.tokens_per_s = p.tokens / p.step_s;
  const double peak = machine.device.peak_flops[program.precision.computes_in()] * program.world;
  const double model_flops = model_flops_per_token(program.model) * p.tokens;
  if (peak > 0 && p.step_s > 0 && model_flops > 0 && deck.run.compute == Compute::train) {
    p.mfu = model_flops / (p.step_s * peak);
    p.hfu = p.priced.flops * program.world / (p.step_s * peak);
  }

  options.keep_events = false;
  for (const Resource r : all_values<Resource>) {
    if (p.priced.busy_by_resource[r] <= 0) continue;
    options.speeds = {};
    options.speeds[r] = asked_speed;
    const double step = slowest(price(ranks, machine, options), stragglers);
    p.sensitivities.push_back({r, p.step_s > 0 ? 1 - step / p.step_s : 0});
  }
  std::ranges::stable_sort(p.sensitivities, std::greater{}, &Sensitivity::gain);
  if (assumes_host_memory(machine) && p.priced.busy_by_resource[Resource::host_memory] > 0)
    p.notes.push_back(fmt::format(
        "the machine file gives no node.memory_gb_per_s: {:.0f} GB/s of host memory per node are "
        "assumed for updates of offloaded states",
        assumed_host_bytes_per_s * 1e-9));
  return p;
}

std::vector<Program> distinct_programs(const Deck& deck, Program own, int ranks_per_node) {
  std::vector<Program> programs = other_classes(deck, own, ranks_per_node);
  programs.insert(programs.begin(), std::move(own));
  return programs;
}

StepTime step_time(const Deck& deck, std::span<const Program> programs, const Machine& machine,
                   int ranks_per_node) {
  std::vector<const Program*> ranks;
  for (const Program& program : programs) ranks.push_back(&program);
  PriceOptions options = price_options(deck, ranks_per_node);
  options.keep_events = false;
  const std::vector<PricedStep> priced = price(ranks, machine, options);
  return {slowest(priced, straggler_factor(machine, programs.front().world, ranks_per_node)),
          priced.front().critical};
}

PriceOptions price_options(const Deck& deck, int ranks_per_node) {
  PriceOptions options;
  options.ranks_per_node = ranks_per_node;
  options.delay_s = deck.comm.delay_ms * 1e-3;
  options.host_link_bytes_per_s = deck.machine.host_link_gbps.value_or(0) * 1e9;
  return options;
}

PredictedPoint predict_point(const Deck& deck, const Machine& machine, int ranks,
                             int ranks_per_node, UnfitTime unfit) {
  const Batch batch = infer_batch(deck, ranks);
  const Profile profile{.ranks_per_node = std::min(ranks, ranks_per_node)};
  Program program = build_legal_program(deck, batch, ranks, 0, profile);
  MemoryFit memory = memory_fit(deck, program, machine, profile.ranks_per_node);
  const bool timed = memory.fits() || unfit == UnfitTime::predicted;
  PredictedPoint point = timed ? predict_program(deck, program, machine, profile.ranks_per_node)
                               : untimed_point(deck, program, profile.ranks_per_node);
  point.memory = std::move(memory);
  point.program = std::move(program);
  return point;
}

std::vector<Prediction> predict_run(const Deck& deck, const Program& program,
                                    const Machine& machine, const std::string& file,
                                    int ranks_per_node) {
  const MemoryFit memory = memory_fit(deck, program, machine, ranks_per_node);
  std::vector<Prediction> predictions;
  const auto add = [&](double core_to_core_s, const Machine& there) {
    predictions.push_back({file, standing(there), core_to_core_s,
                           predict_program(deck, program, there, ranks_per_node)});
    predictions.back().point.memory = memory;
  };
  add(machine.node.core_to_core_s, machine);
  for (const Placement& p : machine.placements)
    add(p.core_to_core_s, in_placement(machine, p.core_to_core_s));
  return predictions;
}

const Prediction& in_placement(const std::vector<Prediction>& predictions, double core_to_core_s) {
  if (core_to_core_s <= 0 || predictions.size() == 1) return predictions.front();
  return *nearest_placement(std::next(predictions.begin()), predictions.end(), core_to_core_s);
}

nlohmann::ordered_json point_json(const PredictedPoint& p) {
  const auto optional = [](const std::optional<double>& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
  };
  const auto timed = [&](double value) {
    return p.timed ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
  };
  return {{"ranks", p.ranks},
          {"ranks_per_node", p.ranks_per_node},
          {"parameters", p.parameters},
          {"layers", p.layers},
          {"tokens_per_step", p.tokens},
          {"fits", p.memory.fits()},
          {"memory", memory_json(p.memory)},
          {"step_s", timed(p.step_s)},
          {"step_s_low", timed(p.step_s_low)},
          {"step_s_high", timed(p.step_s_high)},
          {"tokens_per_s", timed(p.tokens_per_s)},
          {"mfu", optional(p.mfu)},
          {"hfu", optional(p.hfu)},
          {"phases_s",
           {{"forward", timed(p.priced.phase_s[Phase::forward])},
            {"backward", timed(p.priced.phase_s[Phase::backward])},
            {"optimizer", timed(p.priced.phase_s[Phase::step])},
            {"copies", timed(p.priced.copies_s)}}},
          {"exposed_s", timed(p.priced.exposed_s)},
          {"limited_by", p.limited_by()},
          {"extrapolates", p.extrapolates},
          {"notes", p.notes}};
}

void add_cost(nlohmann::ordered_json& json, const PredictedPoint& p) {
  const Footprint bytes = footprint(p.program);
  nlohmann::ordered_json& peaks = json["memory_at_peak"] = nlohmann::ordered_json::object();
  for (const Tier t : all_values<Tier>)
    if (bytes[t].peak_bytes > 0) peaks[std::string(to_string(t))] = category_json(bytes[t].at_peak);
  const Volume volume = steady_volume(p.program);
  json["volume"] = volume_json(volume);
  json["per_parameter"] = volume_per_parameter(p.program, volume);
}

}  // namespace shardmark
