// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <utility>

#include <core/plan/deck/decoder_modules.hpp>
#include <miniapp/tools/advise/degrees.hpp>

namespace shardmark {
namespace {

// How many pairs of degrees and stage are tried with larger micro-batches.
constexpr std::size_t most_climbs = 8;

// 1, 2, 4, … up to `most`, and the deck's own degree.
std::vector<std::int64_t> powers(std::int64_t most, std::int64_t own) {
  std::vector<std::int64_t> all;
  for (std::int64_t d = 1; d <= most; d *= 2) all.push_back(d);
  if (std::find(all.begin(), all.end(), own) == all.end()) all.push_back(own);
  return all;
}

bool suits(const Deck& deck, const ParallelSpec& p, const CandidateSpace& space) {
  if (p.sequence > 1 && (p.tensor > 1 || p.expert > 1)) return false;
  if (space.ranks % (p.tensor * p.sequence) != 0 || space.ranks % p.expert != 0) return false;
  if (space.global_batch % data_parts(p, space.ranks) != 0) return false;
  // Ranks beyond the heads of keys would have no attention.
  if (p.tensor > 1 && (p.tensor > kv_heads_of(deck.model) ||
                       !undividable(deck.model, p.tensor, p.expert > 1).empty()))
    return false;
  if (p.sequence > 1 && !unsplittable(deck.model, p.sequence).empty()) return false;
  return p.expert == 1 || unspreadable(deck.model, p.expert).empty();
}

// One way to divide the model at one stage, whose micro-batch grows from round to round.
struct Climb {
  CandidateSpace space;  // with the degrees
  BasicChoice choice;
  std::vector<std::int64_t> micros;
  std::size_t next = 0;
  double step_s = 0;  // of the last one; 0: none

  bool ended() const { return next >= micros.size(); }
  // Larger micro-batches need more memory and, once they are slower, stay so.
  void take(const Candidate& c) {
    const bool better = c.fits && (step_s == 0 || c.step_s < step_s);
    next = better ? next + 1 : micros.size();
    step_s = c.step_s;
  }
};

// One more micro-batch of each climb. Returns what was evaluated, in the order of the climbs.
std::vector<Candidate> advance(const AdviseCase& question, const Deck& deck,
                               std::vector<Climb>& climbs) {
  std::vector<DeckChanges> changes;
  for (Climb& c : climbs) {
    c.choice.micro = c.micros[c.next];
    changes.push_back(changes_of(deck, c.space, c.choice));
  }
  std::vector<Candidate> results = evaluate_all(question, changes, false);
  for (std::size_t i = 0; i < climbs.size(); ++i) climbs[i].take(results[i]);
  return results;
}

std::vector<Climb> climbs_of(const CandidateSpace& space, const std::vector<ParallelSpec>& degrees,
                             Offload kind) {
  std::vector<Climb> climbs;
  for (const ParallelSpec& p : degrees)
    for (int stage = 0; stage <= 3; ++stage) {
      if (!has(kind, Schedule::deepspeed, stage, space)) continue;
      Climb climb{space, {Schedule::deepspeed, stage, kind, 1, true}, {}};
      climb.space.parallel = p;
      climb.space.own_micro = 0;
      climb.micros = micro_batches_with(climb.space);
      climbs.push_back(std::move(climb));
    }
  return climbs;
}

// Keeps the fastest climbs of those that have a step, and the fastest of each stage.
void keep_fastest(std::vector<Climb>& climbs) {
  std::erase_if(climbs, [](const Climb& c) { return c.step_s <= 0; });
  std::ranges::stable_sort(climbs, {}, &Climb::step_s);
  std::set<int> stages;
  std::size_t kept = 0;
  std::erase_if(climbs, [&](const Climb& c) {
    const bool keeps = stages.insert(c.choice.stage).second || kept < most_climbs;
    kept += keeps;
    return !keeps;
  });
}

}  // namespace

std::vector<ParallelSpec> other_degrees(const Deck& deck, const CandidateSpace& space) {
  const ParallelSpec& own = space.parallel;
  std::vector<ParallelSpec> all;
  for (const std::int64_t t : powers(space.ranks_per_node, own.tensor))
    for (const std::int64_t s : powers(space.ranks_per_node, own.sequence))
      for (const std::int64_t e : powers(space.ranks, own.expert)) {
        ParallelSpec p = own;
        p.tensor = t, p.sequence = s, p.expert = e;
        if (t > 1 && e > space.ranks_per_node) continue;  // both stay within a node
        if (!(p == own) && suits(deck, p, space)) all.push_back(p);
      }
  return all;
}

std::vector<Candidate> try_degrees(const AdviseCase& question, const Deck& deck,
                                   const CandidateSpace& space) {
  std::vector<Candidate> all;
  const auto& schedules = space.schedules;
  if (!traits(deck.model.family).has_arithmetic || deck.run.compute != Compute::train ||
      std::find(schedules.begin(), schedules.end(), Schedule::deepspeed) == schedules.end())
    return all;
  const std::vector<ParallelSpec> degrees = other_degrees(deck, space);
  if (degrees.empty()) return all;
  const auto keep = [&](std::vector<Candidate> results) {
    for (Candidate& c : results)
      if (c.fits || c.missing_bytes > 0) all.push_back(std::move(c));
  };
  for (const Offload kind : {Offload::none, Offload::optimizer, Offload::all}) {
    std::vector<Climb> climbs = climbs_of(space, degrees, kind);
    if (climbs.empty()) continue;
    keep(advance(question, deck, climbs));
    keep_fastest(climbs);
    for (std::size_t i = 0, n = climbs.size(); i < n; ++i) {
      Climb& without = climbs.emplace_back(climbs[i]);  // recomputation
      without.choice.recomputes = false;
      without.next = 0, without.step_s = 0;
    }
    const auto ended = [](const Climb& c) { return c.ended(); };
    for (std::erase_if(climbs, ended); !climbs.empty(); std::erase_if(climbs, ended))
      keep(advance(question, deck, climbs));
    if (std::ranges::any_of(all, &Candidate::fits)) break;
  }
  return all;
}

}  // namespace shardmark
