// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <core/plan/check.hpp>
#include <miniapp/list_model.hpp>
#include <miniapp/self_check.hpp>
#include <miniapp/state_hash.hpp>

namespace shardmark {
namespace {

constexpr std::int64_t steps = 2;
Batch batch_for(int world) {
  return {2 * world, 1, 2};
}

// Sizes that divide by nothing, one smaller than most worlds, containers and bare modules.
Deck small_deck(const Deck& run, int stage) {
  Deck d;
  d.name = "self_check";
  d.model.family = Family::list;
  d.model.modules = {{"in", {37}}, {"h.0", {}},      {"h.0.a", {101, 7}}, {"h.0.b", {1}},
                     {"h.1", {}},  {"h.1.a", {257}}, {"h.1.b", {3, 11}},  {"out", {64}}};
  d.zero.stage = stage;
  d.run.compute = Compute::none;
  d.run.reductions = run.run.reductions;
  return d;
}

// First owned parameter that is not what this rank works out alone; empty: all are.
std::string compare_with_closed_form(const Program& p, const Executor& executor) {
  for (int u = 0; u < static_cast<int>(p.model.units.size()); ++u) {
    const Unit& unit = p.model.units[u];
    const Bound state = executor.slot(executor.find_slot("param." + unit.name));
    const bool whole = state.elems == p.partition.units[u].padded;
    const std::int64_t first = whole ? 0 : p.partition.offset(u, p.rank);
    const std::int64_t end = std::min(first + state.elems, unit.elems);
    for (std::int64_t i = first; i < end; ++i) {
      const std::int64_t want =
          ListModel::expected_param(unit.first_elem + i, p.world, p.batch.accumulation, steps);
      const float have = state.as<float>()[i - first];
      if (have != static_cast<float>(want))
        return fmt::format("rank {}: element {} of {} is {}, exactly {} was due", p.rank, i,
                           unit.name, have, want);
    }
  }
  return {};
}

struct Outcome {
  StateHashes hashes;
  std::string wrong;
};

Outcome run_stage(const Deck& run, int stage, const Profile& profile, const Context& context,
                  Communicator& comm, Peers& peers, Fault fault) {
  const Deck deck = small_deck(run, stage);
  const Batch batch = batch_for(comm.size());
  const Program program = build_program(deck, batch, comm.size(), comm.rank(), profile);
  require_legal(check(program));
  ListModel model(context);
  Executor executor(program, model, std::vector<Communicator*>{&comm}, context.space, nullptr,
                    fault);
  executor.run(SegmentKind::init, 0, 0);
  for (std::int64_t s = 0; s < steps; ++s) {
    int g = 0;
    for (SegmentKind kind : step_segments(batch.accumulation)) executor.run(kind, s, g++);
  }
  Outcome o;
  for (const std::string& text : peers.gather(compare_with_closed_form(program, executor)))
    if (o.wrong.empty() && !text.empty()) o.wrong = fmt::format("stage {}: {}", stage, text);
  o.hashes = hash_states(context, program, executor, peers);
  return o;
}

}  // namespace

std::string self_check(const Deck& deck, const Profile& profile, const Context& context,
                       Communicator& comm, Peers& peers, Fault fault) {
  // A NaN is put into the real run only: it is the loss that has to show it.
  const Fault here = fault == Fault::nan || fault == Fault::leak ? Fault::none : fault;
  auto stage = [&](int s) { return run_stage(deck, s, profile, context, comm, peers, here); };
  const Outcome mine = stage(deck.zero.stage);
  if (!mine.wrong.empty()) return mine.wrong;
  if (!mine.hashes.disagreement.empty()) return mine.hashes.disagreement;
  const Outcome zero = deck.zero.stage == 0 ? mine : stage(0);
  if (!zero.wrong.empty()) return zero.wrong;
  if (!(zero.hashes == mine.hashes))
    return fmt::format("stage {} gives param {:016x}, stage 0 gives {:016x}", deck.zero.stage,
                       mine.hashes.param, zero.hashes.param);
  return {};
}

}  // namespace shardmark
