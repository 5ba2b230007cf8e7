// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <set>
#include <thread>

#include <fmt/core.h>

#include <core/error.hpp>
#include <core/text.hpp>
#include <io/deck/deck_reader.hpp>
#include <io/deepspeed/config.hpp>
#include <miniapp/advise/search.hpp>

namespace shardmark {
namespace {

constexpr std::size_t refined_per_kind = 1, kept_exact = 8;
// Candidates that lack less than this part of the memory they need may fit with other knobs.
constexpr double almost = 0.2;

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

bool faster(const Candidate& a, const Candidate& b) {
  return a.tokens_per_s > b.tokens_per_s;
}

// Moves the results to those that fit and those that do not.
void sort_into(Advice& advice, std::vector<Candidate> results) {
  advice.considered += results.size();
  for (Candidate& c : results)
    (c.fits ? advice.candidates : advice.refused).push_back(std::move(c));
  std::stable_sort(advice.candidates.begin(), advice.candidates.end(), faster);
}

// The fastest candidates of each schedule and stage with changed knobs, and those that almost fit.
std::vector<DeckChanges> refinements(const Advice& advice, const CandidateSpace& space) {
  std::map<std::pair<Schedule, int>, std::size_t> taken;
  std::vector<DeckChanges> all;
  const auto refine = [&](const Candidate& c) {
    for (DeckChanges& more : refined_candidates(c.changes, c.schedule, c.stage, space))
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

// Plans the fastest ones, and the fastest of each stage, with all layers.
void make_exact(Advice& advice) {
  for (int round = 0; round < 4; ++round) {
    std::vector<DeckChanges> changes;
    std::set<int> stages;
    for (std::size_t i = 0; i < advice.candidates.size(); ++i) {
      const Candidate& c = advice.candidates[i];
      const bool wanted = i < kept_exact / 2 || stages.insert(c.stage).second;
      if (wanted && !c.exact) changes.push_back(c.changes);
    }
    if (changes.empty()) return;
    std::vector<Candidate> exact = evaluate_all(advice.question, changes, true);
    std::erase_if(advice.candidates, [&](const Candidate& c) {
      return std::find(changes.begin(), changes.end(), c.changes) != changes.end();
    });
    advice.considered -= exact.size();
    sort_into(advice, std::move(exact));
  }
}

std::vector<Candidate> best_by_stage(const std::vector<Candidate>& candidates) {
  std::set<int> stages;
  std::vector<Candidate> best;
  for (const Candidate& c : candidates)
    if (stages.insert(c.stage).second) best.push_back(c);
  return best;
}

// Over networks from 1/64 of the bandwidth to 16 times as much, where the order of the stages' best
// candidates changes at the top.
std::vector<Crossing> crossings_of(const Advice& advice) {
  const AdviseCase& q = advice.question;
  std::vector<Program> programs;
  std::vector<std::size_t> index;
  for (const Candidate& c : advice.best_of_stage) {
    programs.push_back(program_of(q, c.changes));
    for (std::size_t i = 0; i < advice.candidates.size(); ++i)
      if (advice.candidates[i].changes == c.changes) index.push_back(i);
  }
  const auto best_at = [&](double factor) {
    const Machine machine = with_network_rate(*q.machine, q.ranks, q.ranks_per_node, factor);
    std::size_t best = 0;
    double least = 0;
    for (std::size_t i = 0; i < programs.size(); ++i) {
      const double s = step_seconds(programs[i], machine, q.ranks_per_node);
      if (i == 0 || s < least) best = i, least = s;
    }
    return best;
  };
  std::vector<Crossing> found;
  const double rate = network_rate(*q.machine, q.ranks, q.ranks_per_node);
  if (rate <= 0 || programs.size() < 2) return found;
  for (const bool below : {true, false}) {
    double near = 1;
    for (int step = 1; step <= (below ? 6 : 4); ++step) {
      double far = std::pow(2.0, below ? -step : step);
      const std::size_t other = best_at(far);
      if (other == 0) {
        near = far;
        continue;
      }
      for (int half = 0; half < 4; ++half) {
        const double middle = std::sqrt(near * far);
        (best_at(middle) == 0 ? near : far) = middle;
      }
      found.push_back({rate * std::sqrt(near * far), below, index[other]});
      break;
    }
  }
  return found;
}

// The ranks at which the leanest candidate fits; 0: none up to the most that are planned.
int enough_ranks(const AdviseCase& question, const DeckChanges& leanest) {
  for (std::int64_t ranks = 2 * std::int64_t{question.ranks}; ranks <= most_ranks; ranks *= 2) {
    AdviseCase larger = question;
    larger.ranks = static_cast<int>(ranks);
    DeckChanges changes;
    for (const auto& [key, value] : leanest)
      if (key == "deepspeed.train_batch_size")
        changes.emplace_back(key, std::to_string(ranks));
      else if (key == "deepspeed.gradient_accumulation_steps" ||
               key == "deepspeed.train_micro_batch_size_per_gpu")
        changes.emplace_back(key, "1");
      else
        changes.emplace_back(key, value);
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
  const int ranks = enough_ranks(q, leanest->changes);
  throw MemoryError(fmt::format(
      "{}: none of {} candidates fits on {}: the leanest (stage {}) lacks memory: {}. {}", q.deck,
      advice.considered, plural(q.ranks, "rank"), leanest->stage, leanest->refusal,
      ranks > 0 ? fmt::format("It fits on {} ranks", ranks)
                : std::string("More ranks do not help: use a smaller model or sequence, or devices "
                              "with more memory")));
}

std::int64_t checked_batch(const Deck& deck, int ranks, std::int64_t wanted) {
  if (wanted == 0) return infer_batch(deck.zero, ranks, deck.path).global;
  if (wanted % ranks != 0)
    throw DeckError(fmt::format("{}: --batch {}: must be a multiple of the {} ranks: use {}",
                                deck.path, wanted, ranks,
                                std::max<std::int64_t>(1, (wanted + ranks / 2) / ranks) * ranks));
  return wanted;
}

NetworkLevel* level_between(Machine& machine, int ranks, int ranks_per_node) {
  NetworkLevel* found = nullptr;
  for (NetworkLevel& level : machine.network)
    if (level.between_nodes == (ranks > ranks_per_node)) found = &level;
  return found;
}

}  // namespace

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

Advice advise(AdviseCase question, std::int64_t global_batch) {
  const Deck deck = read_deck(question.deck, question.sets, DeckUse::plan).deck;
  if (deck.model.fit)
    throw DeckError(deck.path +
                    ": model.fit: advise needs a model of a known size: give "
                    "model.layers instead, or ask with --max-model");
  Advice advice;
  question.budgets = budgets_of(deck, *question.machine, question.ranks_per_node);
  advice.question = question;
  advice.global_batch = checked_batch(deck, question.ranks, global_batch);
  CandidateSpace space;
  space.global_batch = advice.global_batch;
  space.ranks = question.ranks;
  space.ranks_per_node = std::min(question.ranks, question.ranks_per_node);
  space.has_host_memory = !question.machine->device.is_host;
  space.has_disk = question.machine->node.disk_bytes > 0;
  sort_into(advice, evaluate_all(question, basic_candidates(deck, space), false));
  sort_into(advice, evaluate_all(question, refinements(advice, space), false));
  make_exact(advice);
  if (advice.candidates.empty()) refuse_all(advice);
  advice.best_of_stage = best_by_stage(advice.candidates);
  std::vector<std::string> sets = question.sets;
  for (const std::string& s : sets_of(advice.candidates.front().changes)) sets.push_back(s);
  advice.best = predict_point(read_deck(question.deck, sets, DeckUse::plan).deck, *question.machine,
                              question.ranks, question.ranks_per_node);
  advice.crossings = crossings_of(advice);
  return advice;
}

}  // namespace shardmark
