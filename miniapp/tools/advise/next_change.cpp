// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <core/text.hpp>
#include <io/deck/deck_keys.hpp>
#include <io/deck/deck_reader.hpp>
#include <io/deepspeed/config.hpp>
#include <miniapp/predict/prediction.hpp>
#include <miniapp/tools/advise/degrees.hpp>
#include <miniapp/tools/advise/knobs.hpp>
#include <miniapp/tools/advise/next_change.hpp>

namespace shardmark {

namespace {

constexpr double least_single_gain = 0.01;
constexpr std::size_t most_hopeful = 4;

void add_stages(std::vector<DeckChanges>& all, const Deck& deck) {
  for (int stage = 0; stage <= 3; ++stage)
    if (stage != deck.zero.stage)
      all.push_back({{key_path<&ZeroSpec::stage>(), std::to_string(stage)}});
}

void add_batches(std::vector<DeckChanges>& all, const Batch& batch, const ParallelSpec& parallel) {
  const std::int64_t sequences = batch.micro * batch.accumulation;  // of a rank
  for (const std::int64_t micro : {batch.micro / 2, batch.micro * 2})
    if (micro > 0 && sequences % micro == 0)
      all.push_back(batch_changes({batch.global, micro, sequences / micro}, parallel));
}

// One degree at a time, with the same sequences per step and the largest micro-batch that divides
// the deck's.
void add_degrees(std::vector<DeckChanges>& all, const Deck& deck, const AdviseCase& question,
                 const Batch& batch) {
  if (!traits(deck.model.family).has_arithmetic || deck.run.compute != Compute::train) return;
  const ParallelSpec& own = deck.zero.parallel;
  CandidateSpace space;
  space.global_batch = batch.global;
  space.ranks = question.ranks;
  space.ranks_per_node = question.per_node();
  space.parallel = own;
  for (const ParallelSpec& p : other_degrees(deck, space)) {
    const int changed =
        (p.tensor != own.tensor) + (p.sequence != own.sequence) + (p.expert != own.expert);
    if (changed != 1) continue;
    const std::int64_t sequences = batch.global / data_parts(p, question.ranks);
    const std::int64_t micro = std::gcd(sequences, batch.micro);
    all.push_back(degree_changes(own, p));
    for (auto& change : batch_changes({batch.global, micro, sequences / micro}, p))
      all.back().push_back(std::move(change));
  }
}

void add_offload(std::vector<DeckChanges>& all, const Deck& deck) {
  const bool optimizer = deck.zero.offload_optimizer.enabled;
  const bool params = deck.zero.offload_param.enabled;
  const auto set = [](const std::string& key, std::string_view value) {
    return std::pair(key, std::string(value));
  };
  if (!optimizer && deck.zero.stage > 0)
    all.push_back({set(key_path<&ZeroSpec::offload_optimizer>(), offload_to_host)});
  if (!params && deck.zero.stage == 3)
    all.push_back({set(key_path<&ZeroSpec::offload_optimizer>(), offload_to_host),
                   set(key_path<&ZeroSpec::offload_param>(), offload_to_host)});
  if (optimizer && !params)
    all.push_back({set(key_path<&ZeroSpec::offload_optimizer>(), no_offload)});
  if (params) all.push_back({set(key_path<&ZeroSpec::offload_param>(), no_offload)});
}

void add_tuning(std::vector<DeckChanges>& all, const Deck& deck) {
  for (const char* overlap : {"false", "true"})
    all.push_back({{key_path<&ZeroKnobs::overlap_comm>(), overlap}});
  for (const char* elems : {"50000000", "500000000"}) {
    all.push_back({{key_path<&ZeroKnobs::reduce_bucket_size>(), elems}});
    if (deck.zero.stage == 3)
      all.push_back({{key_path<&ZeroKnobs::prefetch_bucket_size>(), elems}});
  }
}

std::vector<DeckChanges> single_changes(const Deck& deck, const AdviseCase& question) {
  const Batch batch = infer_batch(deck, question.ranks);
  std::vector<DeckChanges> all;
  add_stages(all, deck);
  add_batches(all, batch, deck.zero.parallel);
  const bool deepspeed = traits(deck.run.schedule).follows_deepspeed;
  if (deepspeed) add_degrees(all, deck, question, batch);
  if (deepspeed && !question.machine->device.is_host) add_offload(all, deck);
  all.push_back(
      {{"run.activation_checkpointing", deck.run.activation_checkpointing ? "false" : "true"}});
  if (deepspeed) add_tuning(all, deck);
  return all;
}

std::string changes_of(const NextChange& next) {
  std::string text;
  for (const KnobChange& c :
       knob_changes(next.changed.changes, next.as_is.values, next.changed.values))
    add_item(text, fmt::format("{} {} -> {}", c.name, c.from, c.to));
  return text;
}

}  // namespace

std::optional<NextChange> next_change(const AdviseCase& question) {
  const Deck deck = read_deck(question.deck, question.sets, DeckUse::plan, question.ranks).deck;
  if (deck.model.fit) return {};  // the model follows the memory
  NextChange next;
  next.as_is = evaluate(question, {}, true);
  if (next.as_is.fits && next.as_is.step_s <= 0) return {};  // nothing of it takes time
  std::vector<Candidate> quick = evaluate_all(question, single_changes(deck, question), false);
  std::ranges::stable_sort(quick, std::greater{}, &Candidate::tokens_per_s);
  std::vector<DeckChanges> hopeful;  // what is offered must hold on every rank
  for (const Candidate& c : quick)
    if (c.fits && hopeful.size() < most_hopeful) hopeful.push_back(c.changes);
  for (Candidate& c : evaluate_all(question, hopeful, true))
    if (c.fits && c.tokens_per_s > next.changed.tokens_per_s) next.changed = std::move(c);
  const double needed = next.as_is.fits ? (1 + least_single_gain) * next.as_is.tokens_per_s : 0;
  if (!next.changed.fits || next.changed.tokens_per_s < needed) return {};
  return next;
}

std::string next_change_text(const std::optional<NextChange>& next, bool fits) {
  if (!next)
    return fits ? "next best change: none of the single changes that were tried gains 1 %\n"
                : "next best change: no single change makes it fit; `shardmark advise` tries "
                  "combinations\n";
  const Candidate& c = next->changed;
  std::string text =
      fmt::format("next best change: {}: {} per step ({} tokens/s", changes_of(*next),
                  duration(c.step_s), four_digits(c.tokens_per_s));
  if (next->as_is.fits)
    text += fmt::format(", {:+.1f} %", (c.tokens_per_s / next->as_is.tokens_per_s - 1) * 100);
  text += fmt::format(") with {} of device memory{}\n ", human_bytes(c.bytes[Tier::device]),
                      next->as_is.fits ? "" : ": it then fits");
  for (const auto& [key, value] : c.changes) text += fmt::format(" --set '{}={}'", key, value);
  return text + "\n";
}

nlohmann::ordered_json next_change_json(const std::optional<NextChange>& next) {
  if (!next) return nullptr;
  return {{"deck_changes", changes_json(next->changed.changes)},
          {"step_s", next->changed.step_s},
          {"tokens_per_s", next->changed.tokens_per_s},
          {"device_bytes", next->changed.bytes[Tier::device]}};
}

namespace {

constexpr int halvings = 6, doublings = 4, bisections = 5;
constexpr double least_gain = 0.01;

NetworkLevel* level_between(Machine& machine, int ranks, int ranks_per_node) {
  NetworkLevel* found = nullptr;
  for (NetworkLevel& level : machine.network)
    if (level.between_nodes == (ranks > ranks_per_node)) found = &level;
  return found;
}

// The contenders' steps on the machine with another bandwidth.
class Contest {
 public:
  Contest(const AdviseCase& question, const std::vector<Candidate>& contenders)
      : question_(question) {
    for (const Candidate& c : contenders) {
      Entry& entry = entries_.emplace_back(Entry{changed_deck(question, c.changes).deck, {}});
      entry.programs =
          distinct_programs(entry.deck, program_of(question, c.changes), question.per_node());
    }
  }
  // By contender; a bandwidth that was asked for before is not priced again.
  const std::vector<double>& seconds(double factor) {
    std::vector<double>& all = known_[factor];
    if (!all.empty()) return all;
    const Machine machine =
        with_network_rate(*question_.machine, question_.ranks, question_.ranks_per_node, factor);
    for (const Entry& entry : entries_)
      all.push_back(step_time(entry.deck, entry.programs, machine, question_.per_node()).seconds);
    return all;
  }
  std::size_t winner(double factor) {
    const std::vector<double>& s = seconds(factor);
    return static_cast<std::size_t>(std::ranges::min_element(s) - s.begin());
  }
  double gain(std::size_t candidate, double factor) {
    const std::vector<double>& s = seconds(factor);
    return 1 - s[candidate] / s[0];
  }
  // The factor between `near` and `far` at which `candidate` stops to be the winner.
  double end_of(std::size_t candidate, double near, double far) {
    for (int i = 0; i < bisections; ++i) {
      const double middle = std::sqrt(near * far);
      (winner(middle) == candidate ? near : far) = middle;
    }
    return std::sqrt(near * far);
  }

 private:
  struct Entry {
    Deck deck;
    std::vector<Program> programs;  // of the ranks that differ
  };

  const AdviseCase& question_;
  std::vector<Entry> entries_;
  std::map<double, std::vector<double>> known_;  // seconds by factor
};

// The winners' ranges from the machine's own bandwidth outwards, to one side. `rate` times a factor
// is a bandwidth.
std::vector<Crossing> on_one_side(Contest& contest, double rate, bool below) {
  std::vector<Crossing> found;
  std::size_t current = 0;
  double near = 1;
  for (int step = 1; step <= (below ? halvings : doublings); ++step) {
    const double far = std::pow(2.0, below ? -step : step);
    const std::size_t now = contest.winner(far);
    if (now != current) {
      const double at = rate * contest.end_of(current, near, far);
      if (!found.empty() && found.back().candidate == current) found.back().until_bytes_per_s = at;
      if (now != 0) found.push_back({at, below, rate * far, 0, now});
    } else if (now != 0) {
      found.back().until_bytes_per_s = rate * far;
    }
    if (now != 0) found.back().gain = std::max(found.back().gain, contest.gain(now, far));
    current = now;
    near = far;
  }
  std::erase_if(found, [](const Crossing& c) { return c.gain < least_gain; });
  return found;
}

// Two ranges of one candidate that a range without gain had separated become one.
void merge_neighbours(std::vector<Crossing>& ranges) {
  for (std::size_t i = 1; i < ranges.size();)
    if (ranges[i].candidate == ranges[i - 1].candidate) {
      ranges[i - 1].until_bytes_per_s = ranges[i].until_bytes_per_s;
      ranges[i - 1].gain = std::max(ranges[i - 1].gain, ranges[i].gain);
      ranges.erase(ranges.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
}

}  // namespace

std::vector<Crossing> crossings_of(const AdviseCase& question,
                                   const std::vector<Candidate>& contenders) {
  const double rate = network_rate(*question.machine, question.ranks, question.ranks_per_node);
  if (rate <= 0 || contenders.size() < 2) return {};
  Contest contest(question, contenders);
  std::vector<Crossing> all = on_one_side(contest, rate, true);
  merge_neighbours(all);
  std::reverse(all.begin(), all.end());
  std::vector<Crossing> above = on_one_side(contest, rate, false);
  merge_neighbours(above);
  all.insert(all.end(), above.begin(), above.end());
  return all;
}

double network_rate(const Machine& machine, int ranks, int ranks_per_node) {
  Machine copy = machine;
  const NetworkLevel* level = level_between(copy, ranks, ranks_per_node);
  if (level == nullptr) return 0;
  if (level->node_bytes_per_s > 0) return level->node_bytes_per_s;
  return level->link.bytes_per_s * (level->between_nodes ? ranks_per_node : 1);
}

Machine with_network_rate(Machine machine, int ranks, int ranks_per_node, double factor) {
  NetworkLevel* level = level_between(machine, ranks, ranks_per_node);
  if (level == nullptr) return machine;
  level->link.bytes_per_s *= factor;
  level->node_bytes_per_s *= factor;
  if (level->nccl)
    for (NcclChannels* c : {&level->nccl->ring, &level->nccl->tree, &level->nccl->nvls})
      c->bytes_per_s *= factor;
  for (CollectiveTimes& t : level->collectives)
    if (!t.points.empty()) {
      const double latency = t.points.front().seconds;
      for (TimePoint& p : t.points) p.seconds = latency + (p.seconds - latency) / factor;
    }
  return machine;
}

}  // namespace shardmark
