// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include <fmt/core.h>

#include <core/error.hpp>
#include <core/plan/build/fit_layers.hpp>
#include <core/plan/price/price.hpp>
#include <core/plan/price/stragglers.hpp>
#include <core/text.hpp>
#include <io/deck/deck_reader.hpp>
#include <io/deepspeed/config.hpp>
#include <miniapp/predict/prediction.hpp>
#include <miniapp/tools/advise/evaluate.hpp>
#include <miniapp/tools/advise/knobs.hpp>

namespace shardmark {
namespace {

constexpr std::int64_t few_layers = 8, more_layers = 16, many_layers = 48;

struct Outcome {
  EnumArray<Tier, double> bytes{};
  double step_s = 0;
  Cost critical;
};

Program program_of(const AdviseCase& question, const Deck& deck, int rank) {
  Profile profile;
  profile.ranks_per_node = std::min(question.ranks, question.ranks_per_node);
  const Batch batch = infer_batch(deck.zero, question.ranks, deck.path);
  return build_program(deck, batch, question.ranks, rank, profile);
}

PricedStep priced(const Program& program, const Machine& machine, int ranks_per_node) {
  PriceOptions options;
  options.ranks_per_node = std::min(program.world, ranks_per_node);
  options.keep_events = false;
  return price(program, machine, options);
}

// Without `all_ranks`, bytes and seconds are those of rank 0.
Outcome outcome_of(const AdviseCase& question, const Deck& deck, bool all_ranks) {
  Outcome o;
  const std::vector<int> ranks =
      all_ranks ? heaviest_ranks(deck, question.ranks) : std::vector<int>{0};
  bool first = true;
  for (const int rank : ranks) {
    const Program program = program_of(question, deck, rank);
    const auto bytes = allocated_bytes(program);
    for (const Tier t : all_values<Tier>)
      o.bytes[t] = std::max(o.bytes[t], static_cast<double>(bytes[t]));
    if (!std::exchange(first, false)) continue;
    const PricedStep step = priced(program, *question.machine, question.ranks_per_node);
    o.critical = step.critical;
    const int per_node = std::min(question.ranks, question.ranks_per_node);
    o.step_s = all_ranks
                   ? slowest_step_s(deck, distinct_programs(deck, program, per_node),
                                    *question.machine, per_node)
                   : step.step_s * straggler_factor(*question.machine, question.ranks, per_node);
  }
  return o;
}

// Bytes and seconds grow by the same amount with each layer.
Outcome extrapolated(const AdviseCase& question, Deck deck) {
  const auto layers = static_cast<double>(deck.model.layers);
  deck.model.layers = few_layers;
  const Outcome few = outcome_of(question, deck, false);
  deck.model.layers = more_layers;
  Outcome o = outcome_of(question, deck, false);
  const double times = (layers - more_layers) / (more_layers - few_layers);
  const auto extend = [&](double& value, double before) { value += times * (value - before); };
  for (const Tier t : all_values<Tier>) extend(o.bytes[t], few.bytes[t]);
  for (std::size_t r = 0; r < o.critical.size(); ++r) extend(o.critical[r], few.critical[r]);
  extend(o.step_s, few.step_s);
  return o;
}

std::string refusal_of(const Candidate& c, const Budgets& budgets, Tier tier) {
  return fmt::format("it needs {} of {} memory per rank and there are {}: {} are missing",
                     human_bytes(c.bytes[tier]), to_string(tier), human_bytes(*budgets[tier]),
                     human_bytes(c.bytes[tier] - *budgets[tier]));
}

// What the candidate is, for a deck that is refused before it says so.
void name_kind(Candidate& c) {
  for (const auto& [key, value] : c.changes) {
    if (key == "deepspeed.zero_optimization.stage") c.stage = std::stoi(value);
    if (key != "run.schedule") continue;
    for (const Schedule s : all_values<Schedule>)
      if (to_string(s) == value) c.schedule = s;
  }
}

void judge_memory(Candidate& c, const Budgets& budgets) {
  c.fits = true;
  for (const Tier t : all_values<Tier>) {
    if (!budgets[t] || c.bytes[t] <= *budgets[t]) continue;
    c.fits = false;
    if (c.bytes[t] - *budgets[t] <= c.missing_bytes) continue;
    c.missing_bytes = c.bytes[t] - *budgets[t];
    c.refusal = refusal_of(c, budgets, t);
  }
}

}  // namespace

Deck changed_deck(const AdviseCase& question, const DeckChanges& changes) {
  std::vector<std::string> sets = question.sets;
  for (const std::string& s : sets_of(changes)) sets.push_back(s);
  return read_deck(question.deck, sets, DeckUse::plan).deck;
}

double step_seconds(const Program& program, const Machine& machine, int ranks_per_node) {
  return priced(program, machine, ranks_per_node).step_s *
         straggler_factor(machine, program.world, std::min(program.world, ranks_per_node));
}

Program program_of(const AdviseCase& question, const DeckChanges& changes) {
  return program_of(question, changed_deck(question, changes), 0);
}

Candidate evaluate(const AdviseCase& question, const DeckChanges& changes, bool exact) {
  Candidate c;
  c.changes = changes;
  name_kind(c);
  try {
    const Deck deck = changed_deck(question, changes);
    c.schedule = deck.run.schedule;
    c.stage = deck.zero.stage;
    const Batch batch = infer_batch(deck.zero, question.ranks, deck.path);
    c.batch = batch;
    c.recomputes = deck.run.activation_checkpointing;
    c.values = knob_values(deck, batch);
    c.exact = exact;
    const bool whole = exact || deck.model.layers < many_layers;
    const Outcome o = whole ? outcome_of(question, deck, exact) : extrapolated(question, deck);
    for (const Tier t : all_values<Tier>) c.bytes[t] = std::llround(o.bytes[t]);
    c.step_s = o.step_s;
    const double tokens = static_cast<double>(batch.global) *
                          static_cast<double>(std::max<std::int64_t>(1, deck.model.sequence));
    c.tokens_per_s = c.step_s > 0 ? tokens / c.step_s : 0;
    const auto most = std::max_element(o.critical.begin(), o.critical.end()) - o.critical.begin();
    c.limited_by = to_string(static_cast<Resource>(most));
    judge_memory(c, question.budgets);
  } catch (const Error& e) {
    c.refusal = e.what();
  }
  return c;
}

std::vector<Candidate> evaluate_all(const AdviseCase& question,
                                    const std::vector<DeckChanges>& changes, bool exact) {
  std::vector<Candidate> results(changes.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < changes.size(); i = next++)
      results[i] = evaluate(question, changes[i], exact);
  };
  const std::size_t most = std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::jthread> threads;
  for (std::size_t t = 1; t < std::min(most, changes.size()); ++t) threads.emplace_back(work);
  work();
  threads.clear();
  return results;
}

}  // namespace shardmark
