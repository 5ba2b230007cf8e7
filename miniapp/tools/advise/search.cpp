// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/core.h>

#include <core/error.hpp>
#include <core/text.hpp>
#include <io/deck/deck_keys.hpp>
#include <io/deck/deck_reader.hpp>
#include <io/deepspeed/config.hpp>
#include <io/json/json_source.hpp>
#include <miniapp/tools/advise/degrees.hpp>
#include <miniapp/tools/advise/knobs.hpp>
#include <miniapp/tools/advise/search.hpp>

namespace shardmark {

namespace {

constexpr std::size_t refined_per_kind = 1;
// Candidates that lack less than this part of the memory they need may fit with other knobs.
constexpr double almost = 0.2;

bool faster(const Candidate& a, const Candidate& b) {
  return a.step_s < b.step_s;  // all have the same global batch
}

// Moves the results to those that fit and those that do not.
void sort_into(Advice& advice, std::vector<Candidate> results) {
  advice.considered += results.size();
  for (Candidate& c : results)
    (c.fits ? advice.candidates : advice.refused).push_back(std::move(c));
  std::ranges::stable_sort(advice.candidates, faster);
  advice.candidates = distinct(std::move(advice.candidates));
}

// The fastest candidates of each schedule and stage with changed knobs, and those that almost fit.
std::vector<DeckChanges> refinements(const Advice& advice, const CandidateSpace& space) {
  std::map<std::pair<Schedule, int>, std::size_t> taken;
  std::vector<DeckChanges> all;
  const auto refine = [&](const Candidate& c) {
    CandidateSpace divided = space;
    divided.parallel = c.parallel;
    for (DeckChanges& more : refined_candidates(c.changes, c.schedule, c.stage, divided))
      all.push_back(std::move(more));
  };
  for (const Candidate& c : advice.candidates)
    if (taken[{c.schedule, c.stage}]++ < refined_per_kind) refine(c);
  std::map<std::pair<Schedule, int>, const Candidate*> leanest;
  for (const Candidate& c : advice.refused) {
    const auto bytes = static_cast<double>(c.bytes[Tier::device]);
    if (c.missing_bytes == 0 || static_cast<double>(c.missing_bytes) > almost * bytes) continue;
    const Candidate*& least = leanest[{c.schedule, c.stage}];
    if (least == nullptr || c.missing_bytes < least->missing_bytes) least = &c;
  }
  for (const auto& [kind, c] : leanest) refine(*c);
  return all;
}

// What makes the candidates of the answer's table, in which stages with one plan share a row.
std::set<DeckChanges> in_table(const Advice& advice) {
  std::set<DeckChanges> all;
  for (const Candidate& c : distinct_but_for_stage(advice.candidates))
    if (all.size() < advice.question.exact_rows) all.insert(c.changes);
  return all;
}

// Plans the fastest ones, and the fastest with room and of each stage, with all layers. Each round
// makes some candidates exact, which may bring others to the front.
void make_exact(Advice& advice) {
  while (true) {
    std::vector<DeckChanges> changes;
    std::set<int> stages;
    std::set<bool> kinds;
    bool has_room = false;
    const std::set<DeckChanges> table = in_table(advice);
    for (const Candidate& c : advice.candidates) {
      const bool roomy = !c.tight && !std::exchange(has_room, has_room || !c.tight);
      const bool of_stage = stages.insert(c.stage).second;
      const bool of_kind = kinds.insert(c.parallel.divides()).second;
      const bool wanted = of_stage || of_kind || roomy || table.contains(c.changes);
      if (wanted && !c.exact) changes.push_back(c.changes);
    }
    if (changes.empty()) return;
    std::vector<Candidate> exact = evaluate_all(advice.question, changes, true);
    std::erase_if(advice.candidates, [&](Candidate& c) {
      const auto it = std::find(changes.begin(), changes.end(), c.changes);
      if (it == changes.end()) return false;
      exact[it - changes.begin()].without_effect = std::move(c.without_effect);
      return true;
    });
    advice.considered -= exact.size();
    sort_into(advice, std::move(exact));
  }
}

// Nobody should change a key for nothing, or go without room for what no prediction can tell.
void prefer_the_plainest(Advice& advice) {
  std::vector<Candidate>& candidates = advice.candidates;
  const auto end_of = [&](double step_s) {
    return std::ranges::find_if(candidates,
                                [=](const Candidate& c) { return c.step_s > step_s || !c.exact; });
  };
  const double fastest = candidates.front().step_s;
  const auto hardly_slower = end_of(fastest * (1 + worth_of_room));
  const auto roomy =
      std::find_if(candidates.begin(), hardly_slower, [](const Candidate& c) { return !c.tight; });
  const auto end = end_of((roomy == hardly_slower ? fastest : roomy->step_s) * (1 + no_difference));
  const auto cost = [&](const Candidate& c) {
    const auto changed = knob_changes(c.changes, advice.given_beside(c), c.values).size();
    return std::tuple(c.tight, changed, c.changes.size(), c.bytes[Tier::device]);
  };
  const auto plainest =
      std::min_element(candidates.begin(), end,
                       [&](const Candidate& a, const Candidate& b) { return cost(a) < cost(b); });
  if (plainest != end) std::rotate(candidates.begin(), plainest, plainest + 1);
}

std::vector<Candidate> best_by_stage(const std::vector<Candidate>& candidates) {
  std::set<int> stages;
  std::vector<Candidate> best;
  for (const Candidate& c : candidates)
    if (stages.insert(c.stage).second) best.push_back(c);
  return best;
}

std::optional<Candidate> fastest_of_other_kind(const std::vector<Candidate>& candidates) {
  const bool own = candidates.front().parallel.divides();
  const auto found = std::ranges::find_if(
      candidates, [&](const Candidate& c) { return c.parallel.divides() != own; });
  if (found == candidates.end()) return std::nullopt;
  return *found;
}

std::optional<Candidate> fastest_with_room(const std::vector<Candidate>& candidates) {
  const auto found = std::ranges::find_if(candidates, [](const Candidate& c) { return !c.tight; });
  if (found == candidates.begin() || found == candidates.end()) return std::nullopt;
  return *found;
}

// The ranks at which the candidate that lacks least fits; 0: none up to the most that are planned.
int enough_ranks(const AdviseCase& question, const DeckChanges& leanest,
                 const ParallelSpec& parallel) {
  for (std::int64_t ranks = 2 * std::int64_t{question.ranks}; ranks <= most_ranks; ranks *= 2) {
    AdviseCase larger = question;
    larger.ranks = static_cast<int>(ranks);
    DeckChanges changes;
    const DeckChanges batch = batch_changes({data_parts(parallel, larger.ranks), 1, 1}, parallel);
    for (const auto& change : leanest) {
      const auto same =
          std::ranges::find_if(batch, [&](const auto& b) { return b.first == change.first; });
      changes.push_back(same == batch.end() ? change : *same);
    }
    const Candidate c = evaluate(larger, changes, false);
    if (c.fits) return larger.ranks;
  }
  return 0;
}

[[noreturn]] void refuse_all(const Advice& advice) {
  const Candidate* leanest = nullptr;
  for (const Candidate& c : advice.refused)
    if (c.missing_bytes > 0 && (leanest == nullptr || c.missing_bytes < leanest->missing_bytes))
      leanest = &c;
  const AdviseCase& q = advice.question;
  if (leanest == nullptr)
    throw DeckError(advice.refused.empty() ? q.deck + ": there is no candidate"
                                           : advice.refused.front().refusal);
  const int ranks = enough_ranks(q, leanest->changes, leanest->parallel);
  throw MemoryError(fmt::format(
      "{}: none of {} candidates fits on {}: the one that lacks least (stage {}): {}. {}", q.deck,
      advice.considered, plural(q.ranks, "rank"), leanest->stage, leanest->refusal,
      ranks > 0 ? fmt::format("It fits on {} ranks", ranks)
                : std::string("More ranks do not help: use a smaller model or sequence, or devices "
                              "with more memory")));
}

// `wanted` is a train_batch_size.
std::int64_t checked_batch(const Deck& deck, int ranks, std::int64_t wanted) {
  if (wanted == 0) return infer_batch(deck, ranks).global;
  const ParallelSpec& parallel = deck.zero.parallel;
  const std::int64_t counted = parallel.train_batch_size(data_parts(parallel, ranks));
  if (wanted % counted != 0)
    throw DeckError(
        fmt::format("{}: --batch {}: must be a multiple of the {} ranks{}: use {}", deck.path,
                    wanted, counted, counted == ranks ? "" : " that have samples of their own",
                    std::max<std::int64_t>(1, (wanted + counted / 2) / counted) * counted));
  return wanted / parallel.train_batch_size(1);
}

std::vector<std::string> recomputation_keys(const Json& deck) {
  std::vector<std::string> keys;
  const auto says = [&](const std::string& key) { return deck.contains(Json::json_pointer(key)); };
  for (const char* name : {"activation_checkpointing", "gradient_checkpointing"})
    if (says(std::string("/hf/") + name)) keys.push_back(std::string("hf.") + name);
  if (keys.empty() || says("/run/activation_checkpointing"))
    keys.emplace_back("run.activation_checkpointing");
  return keys;
}

CandidateSpace space_of(const AdviseCase& question, const Deck& deck, std::int64_t global_batch) {
  CandidateSpace space;
  space.global_batch = global_batch;
  space.own_micro = deck.zero.micro_batch_size.value_or(0);
  space.ranks = question.ranks;
  space.parallel = deck.zero.parallel;
  space.ranks_per_node = question.per_node();
  space.has_host_memory = !question.machine->device.is_host;
  space.has_disk = question.machine->node.disk_bytes > 0;
  space.schedules = schedules_of(question.framework);
  const Json text = Json::parse(deck_text(question.deck, question.sets));
  space.has_trainer = text.contains("hf");
  space.recomputation_keys = recomputation_keys(text);
  const Json zero = text.value(Json::json_pointer("/deepspeed/zero_optimization"), Json::object());
  for (const char* key : {"cpu_offload", "cpu_offload_param"})
    if (zero.is_object() && zero.contains(key))
      space.deprecated_offload.push_back(join_key("deepspeed.zero_optimization", key));
  return space;
}

std::vector<std::string> given_at_stage(const Advice& advice, const Batch& batch, int stage) {
  if (stage == advice.deck.zero.stage) return advice.given;
  const std::string key = std::string(key_path<&ZeroSpec::stage>());
  try {
    const Deck deck = changed_deck(advice.question, {{key, std::to_string(stage)}}).deck;
    std::vector<std::string> values = knob_values(deck, batch);
    for (std::size_t i = 0; i < values.size(); ++i)
      if (knobs()[i].key == key) values[i] = advice.given[i];
    return values;
  } catch (const DeckError&) {  // other keys of the deck do not go with the stage
    return advice.given;
  }
}

// The deck without changes, under a schedule of the framework.
void judge_given(Advice& advice) {
  const Deck& deck = advice.deck;
  advice.as_given = evaluate(advice.question, changes_for(advice.question.framework), true);
  Batch batch;
  try {
    batch = infer_batch(deck, advice.question.ranks);
    advice.given_batch = batch.global;
  } catch (const DeckError&) {
    batch = {deck.zero.train_batch_size.value_or(0), deck.zero.micro_batch_size.value_or(0),
             deck.zero.accumulation_steps.value_or(1)};
  }
  advice.given = knob_values(deck, batch);
  for (int stage = 0; stage <= 3; ++stage)
    advice.given_at_stage[stage] = given_at_stage(advice, batch, stage);
}

// A value that the deck has already need not be set, unless it follows from another key there.
DeckChanges needed_changes(const Advice& advice) {
  const Candidate& best = advice.candidates.front();
  const std::vector<KnobChange> differ =
      knob_changes(best.changes, advice.given_beside(best), best.values);
  DeckChanges needed;
  for (const auto& change : best.changes) {
    const bool differs =
        std::ranges::any_of(differ, [&](const KnobChange& c) { return c.key == change.first; });
    if (differs || knob_named(change.first) == nullptr) needed.push_back(change);
  }
  return evaluate(advice.question, needed, false).values == best.values ? needed : best.changes;
}

// Sums of the same events in another order differ in their last digits.
constexpr double same_time = 1e-9;

bool same_but_for_stage(const Candidate& a, const Candidate& b) {
  return a.schedule == b.schedule && a.exact == b.exact && a.bytes == b.bytes &&
         std::abs(a.step_s - b.step_s) <= same_time * a.step_s;
}

bool same_plan(const Candidate& a, const Candidate& b) {
  return a.stage == b.stage && same_but_for_stage(a, b);
}

void absorb(Candidate& kept, const Candidate& other) {
  for (const IdleKey& idle : other.without_effect) merge_idle(kept.without_effect, idle);
  DeckChanges either = kept.changes;
  either.insert(either.end(), other.changes.begin(), other.changes.end());
  for (const KnobChange& c : knob_changes(either, kept.values, other.values))
    merge_idle(kept.without_effect, {std::string(c.key), {c.from, c.to}});
}

void absorb_plainer(Candidate& kept, Candidate other) {
  if (other.changes.size() < kept.changes.size()) std::swap(kept, other);
  absorb(kept, other);
}

template<class Same, class Absorb>
std::vector<Candidate> merged(std::vector<Candidate> candidates, const Same& same,
                              const Absorb& absorb_into) {
  std::vector<Candidate> kept;
  for (Candidate& c : candidates) {
    const auto found =
        std::ranges::find_if(kept, [&](const Candidate& other) { return same(other, c); });
    if (found == kept.end())
      kept.push_back(std::move(c));
    else
      absorb_into(*found, std::move(c));
  }
  return kept;
}

}  // namespace

Advice advise(AdviseCase question, std::int64_t global_batch) {
  const Deck deck = read_deck(question.deck, question.sets, DeckUse::plan).deck;
  if (deck.model.fit)
    throw DeckError(deck.path +
                    ": model.fit: advise needs a model of a known size: give "
                    "model.layers instead, or ask with --max-model");
  Advice advice;
  advice.question = question;
  advice.deck = deck;
  advice.global_batch = checked_batch(deck, question.ranks, global_batch);
  const CandidateSpace space = space_of(question, deck, advice.global_batch);
  sort_into(advice, evaluate_all(question, basic_candidates(deck, space), false));
  std::vector<Candidate> divided = try_degrees(question, deck, space);
  advice.divisions_tried = !divided.empty();
  sort_into(advice, std::move(divided));
  sort_into(advice, evaluate_all(question, refinements(advice, space), false));
  make_exact(advice);
  if (advice.candidates.empty()) refuse_all(advice);
  judge_given(advice);
  prefer_the_plainest(advice);
  advice.best_of_stage = best_by_stage(advice.candidates);
  advice.with_room = fastest_with_room(advice.candidates);
  advice.of_other_kind = fastest_of_other_kind(advice.candidates);
  advice.best = predict_point(changed_deck(question, advice.candidates.front().changes).deck,
                              *question.machine, question.ranks, question.ranks_per_node);
  advice.crossings = crossings_of(question, advice.best_of_stage);
  advice.needed = needed_changes(advice);
  advice.candidates = distinct_but_for_stage(std::move(advice.candidates));
  return advice;
}

void merge_idle(std::vector<IdleKey>& keys, const IdleKey& more) {
  auto it = std::ranges::find_if(keys, [&](const IdleKey& k) { return k.key == more.key; });
  if (it == keys.end()) {
    keys.push_back({more.key, {}});
    it = std::prev(keys.end());
  }
  for (const std::string& value : more.values)
    if (std::find(it->values.begin(), it->values.end(), value) == it->values.end())
      it->values.push_back(value);
}

std::vector<Candidate> distinct(std::vector<Candidate> candidates) {
  return merged(std::move(candidates), same_plan, absorb_plainer);
}

std::vector<Candidate> distinct_but_for_stage(std::vector<Candidate> candidates) {
  return merged(std::move(candidates), same_but_for_stage, absorb);
}

}  // namespace shardmark
