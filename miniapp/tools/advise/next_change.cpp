// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <core/text.hpp>
#include <io/deck/deck_keys.hpp>
#include <io/deck/deck_reader.hpp>
#include <io/deepspeed/config.hpp>
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
  space.ranks_per_node = std::min(question.ranks, question.ranks_per_node);
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
    text += fmt::format("{}{} {} -> {}", text.empty() ? "" : ", ", c.name, c.from, c.to);
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
  std::stable_sort(quick.begin(), quick.end(), [](const Candidate& a, const Candidate& b) {
    return a.tokens_per_s > b.tokens_per_s;
  });
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

}  // namespace shardmark
