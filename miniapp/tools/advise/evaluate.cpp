// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include <core/error.hpp>
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
  StepTime step;
};

int per_node(const AdviseCase& question) {
  return std::min(question.ranks, question.ranks_per_node);
}

Program program_of(const AdviseCase& question, const Deck& deck, int rank) {
  Profile profile;
  profile.ranks_per_node = per_node(question);
  const Batch batch = infer_batch(deck.zero, question.ranks, deck.path);
  return build_program(deck, batch, question.ranks, rank, profile);
}

// Rank 0 stands for all ranks.
Outcome outcome_of(const AdviseCase& question, const Deck& deck) {
  const Program program = program_of(question, deck, 0);
  Outcome o;
  const auto bytes = allocated_bytes(program);
  for (const Tier t : all_values<Tier>) o.bytes[t] = static_cast<double>(bytes[t]);
  o.step = step_time(deck, {program}, *question.machine, per_node(question));
  return o;
}

// Bytes and seconds grow by the same amount with each layer.
Outcome extrapolated(const AdviseCase& question, Deck deck) {
  const auto layers = static_cast<double>(deck.model.layers);
  deck.model.layers = few_layers;
  const Outcome few = outcome_of(question, deck);
  deck.model.layers = more_layers;
  Outcome o = outcome_of(question, deck);
  const double times = (layers - more_layers) / (more_layers - few_layers);
  const auto extend = [&](double& value, double before) { value += times * (value - before); };
  for (const Tier t : all_values<Tier>) extend(o.bytes[t], few.bytes[t]);
  for (std::size_t r = 0; r < o.step.critical.size(); ++r)
    extend(o.step.critical[r], few.step.critical[r]);
  extend(o.step.seconds, few.step.seconds);
  return o;
}

void judge(Candidate& c, const MemoryFit& memory) {
  for (const Tier t : all_values<Tier>) c.bytes[t] = memory.tiers[t].bytes;
  c.fits = memory.fits();
  c.tight = !memory.tightness().empty();
  c.missing_bytes = memory.most_missing();
  c.refusal = memory.lack();
}

// Judges the memory of the candidate, and returns the time of its step.
StepTime judged_exactly(const AdviseCase& question, const Deck& deck, Candidate& c) {
  const Program program = program_of(question, deck, 0);
  judge(c, memory_fit(deck, program, *question.machine, per_node(question)));
  return step_time(deck, distinct_programs(deck, program, per_node(question)), *question.machine,
                   per_node(question));
}

StepTime judged_quickly(const AdviseCase& question, const Deck& deck, Candidate& c) {
  const bool whole = deck.model.layers < many_layers;
  const Outcome o = whole ? outcome_of(question, deck) : extrapolated(question, deck);
  EnumArray<Tier, std::int64_t> bytes{};
  for (const Tier t : all_values<Tier>) bytes[t] = std::llround(o.bytes[t]);
  judge(c, memory_fit(deck, bytes, *question.machine, per_node(question)));
  return o.step;
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

}  // namespace

Deck changed_deck(const AdviseCase& question, const DeckChanges& changes) {
  std::vector<std::string> sets = question.sets;
  for (const std::string& s : sets_of(changes)) sets.push_back(s);
  return read_deck(question.deck, sets, DeckUse::plan).deck;
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
    const StepTime step =
        exact ? judged_exactly(question, deck, c) : judged_quickly(question, deck, c);
    c.step_s = step.seconds;
    const double tokens = static_cast<double>(batch.global) *
                          static_cast<double>(std::max<std::int64_t>(1, deck.model.sequence));
    c.tokens_per_s = c.step_s > 0 ? tokens / c.step_s : 0;
    const Cost& critical = step.critical;
    const auto most = std::max_element(critical.begin(), critical.end()) - critical.begin();
    c.limited_by = to_string(static_cast<Resource>(most));
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
