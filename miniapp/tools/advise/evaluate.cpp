// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include <core/error.hpp>
#include <io/deck/deck_keys.hpp>
#include <io/deck/deck_reader.hpp>
#include <io/deepspeed/config.hpp>
#include <miniapp/predict/prediction.hpp>
#include <miniapp/tools/advise/evaluate.hpp>
#include <miniapp/tools/advise/knobs.hpp>

namespace shardmark {
namespace {

constexpr std::int64_t few_layers = 8, more_layers = 16, many_layers = 48;

Program program_of(const AdviseCase& question, const Deck& deck, int rank) {
  const Profile profile{.ranks_per_node = question.per_node()};
  const Batch batch = infer_batch(deck, question.ranks);
  return build_program(deck, batch, question.ranks, rank, profile);
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
  Program program = program_of(question, deck, 0);
  judge(c, memory_fit(deck, program, *question.machine, question.per_node()));
  return step_time(deck, distinct_programs(deck, std::move(program), question.per_node()),
                   *question.machine, question.per_node());
}

StepTime time_of(const AdviseCase& question, const Deck& deck, const Program& program) {
  return step_time(deck, {&program, 1}, *question.machine, question.per_node());
}

/// A deck of many layers, planned with fewer: bytes and seconds grow by the same amount with each
/// layer.
class FewerLayers {
 public:
  FewerLayers(const AdviseCase& question, const Deck& deck)
      : question_(question),
        times_(static_cast<double>(deck.model.layers - more_layers) / (more_layers - few_layers)),
        few_(with_layers(deck, few_layers)),
        more_(with_layers(deck, more_layers)) {}

  EnumArray<Tier, std::int64_t> bytes() const {
    const auto few = allocated_bytes(few_.program);
    EnumArray<Tier, std::int64_t> bytes = allocated_bytes(more_.program);
    for (const Tier t : all_values<Tier>)
      bytes[t] = std::llround(extended(static_cast<double>(few[t]), static_cast<double>(bytes[t])));
    return bytes;
  }
  StepTime time() const {
    const StepTime few = time_of(question_, few_.deck, few_.program);
    StepTime time = time_of(question_, more_.deck, more_.program);
    for (std::size_t r = 0; r < time.critical.size(); ++r)
      time.critical[r] = extended(few.critical[r], time.critical[r]);
    time.seconds = extended(few.seconds, time.seconds);
    return time;
  }

 private:
  struct Planned {
    Deck deck;
    Program program;
  };
  Planned with_layers(Deck deck, std::int64_t layers) const {
    deck.model.layers = layers;
    Program program = program_of(question_, deck, 0);
    return {std::move(deck), std::move(program)};
  }
  double extended(double few, double more) const { return more + times_ * (more - few); }

  const AdviseCase& question_;
  double times_;
  Planned few_, more_;
};

// Rank 0 stands for all ranks. What does not fit has no time.
StepTime judged_quickly(const AdviseCase& question, const Deck& deck, Candidate& c) {
  const auto judge_bytes = [&](const EnumArray<Tier, std::int64_t>& bytes) {
    judge(c, memory_fit(deck, bytes, *question.machine, question.per_node()));
    return c.fits;
  };
  if (deck.model.layers < many_layers) {
    const Program program = program_of(question, deck, 0);
    return judge_bytes(allocated_bytes(program)) ? time_of(question, deck, program) : StepTime{};
  }
  const FewerLayers fewer(question, deck);
  return judge_bytes(fewer.bytes()) ? fewer.time() : StepTime{};
}

// What the candidate is, for a deck that is refused before it says so.
void name_kind(Candidate& c) {
  for (const auto& [key, value] : c.changes) {
    if (key == key_path<&ZeroSpec::stage>()) c.stage = std::stoi(value);
    if (key != key_path<&RunSpec::schedule>()) continue;
    for (const Schedule s : all_values<Schedule>)
      if (to_string(s) == value) c.schedule = s;
  }
}

}  // namespace

LoadedDeck changed_deck(const AdviseCase& question, const DeckChanges& changes) {
  std::vector<std::string> sets = question.sets;
  for (const std::string& s : sets_of(changes)) sets.push_back(s);
  return read_deck(question.deck, sets, DeckUse::plan);
}

Program program_of(const AdviseCase& question, const DeckChanges& changes) {
  return program_of(question, changed_deck(question, changes).deck, 0);
}

Candidate evaluate(const AdviseCase& question, const DeckChanges& changes, bool exact) {
  Candidate c;
  c.changes = changes;
  name_kind(c);
  try {
    const Deck deck = changed_deck(question, changes).deck;
    c.schedule = deck.run.schedule;
    c.stage = deck.zero.stage;
    c.parallel = deck.zero.parallel;
    c.batch = infer_batch(deck, question.ranks);
    c.recomputes = deck.run.activation_checkpointing;
    c.values = knob_values(deck, c.batch);
    c.exact = exact;
    const StepTime step =
        exact ? judged_exactly(question, deck, c) : judged_quickly(question, deck, c);
    c.step_s = step.seconds;
    const double tokens = static_cast<double>(c.batch.global) *
                          static_cast<double>(std::max<std::int64_t>(1, deck.model.sequence));
    c.tokens_per_s = c.step_s > 0 ? tokens / c.step_s : 0;
    const Cost& critical = step.critical;
    const auto most = std::ranges::max_element(critical) - critical.begin();
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
