// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include <fmt/core.h>

#include <core/memory/read_back.hpp>
#include <core/plan/interpret/check.hpp>
#include <miniapp/execute/session.hpp>
#include <miniapp/measure/state_hash.hpp>
#include <miniapp/models/list_model.hpp>
#include <miniapp/run/self_check.hpp>

namespace shardmark {
namespace {

constexpr std::int64_t steps = 2;
Batch batch_for(int world) {
  return {2 * world, 1, 2};
}

// Odd sizes, one of them smaller than most worlds; containers and modules without parameters; knobs
// so small that there are several of everything. Options that scale gradients by inexact numbers
// are left out.
Deck small_deck(const Deck& run, int stage) {
  Deck d;
  d.name = "self_check";
  d.model.family = Family::list;
  d.model.modules = {{"in", {37}}, {"h.0", {}},      {"h.0.a", {101, 7}}, {"h.0.b", {1}},
                     {"h.1", {}},  {"h.1.a", {257}}, {"h.1.b", {3, 11}},  {"out", {64}}};
  d.zero.stage = stage;
  d.zero.precision = run.zero.precision;
  d.zero.precision.loss_scale = {};
  d.zero.knobs = run.zero.knobs;
  d.zero.offload_optimizer = run.zero.offload_optimizer;
  d.zero.offload_param = run.zero.offload_param;
  d.zero.aio = run.zero.aio;
  d.zero.aio.least_bytes = d.zero.aio.alignment_bytes =
      16;  // so that nearly everything goes to files
  ZeroKnobs& k = d.zero.knobs;
  for (std::int64_t* size : {&k.reduce_bucket_size, &k.sub_group_size, &k.max_live_parameters,
                             &k.max_reuse_distance, &k.prefetch_bucket_size})
    *size = std::min<std::int64_t>(*size, 120);
  k.param_persistence_threshold = std::min<std::int64_t>(k.param_persistence_threshold, 7);
  k.prescale_gradients = k.sums_gradients = false;
  k.gradient_predivide_factor = 1;
  d.run.compute = Compute::none;
  d.run.schedule = run.run.schedule;
  d.run.reductions = run.run.reductions;
  d.run.memory_mode = run.run.memory_mode;
  d.run.shard_size = run.run.shard_size;
  return d;
}

// Names the first owned master parameter that differs from what this rank computes alone; empty if
// none does.
std::string compare_with_closed_form(const Program& p, const Executor& executor) {
  for (const StatePiece& piece : p.states) {
    if (piece.state != State::master) continue;
    std::vector<float> have(static_cast<std::size_t>(piece.elems));
    copy_to_host(Space(), have.data(), executor.slot(piece.slot).as<float>() + piece.offset,
                 have.size() * sizeof(float));
    for (std::int64_t i = 0; i < piece.elems; ++i) {
      const double want = ListModel::expected_param(piece.first_elem + i, p.world,
                                                    p.batch.accumulation, steps, p.precision.model);
      if (have[static_cast<std::size_t>(i)] != static_cast<float>(want))
        return fmt::format("rank {}: element {} of {} is {}, but must be exactly {}", p.rank, i,
                           p.slots[piece.slot].name, have[static_cast<std::size_t>(i)], want);
    }
  }
  return {};
}

struct StageOutcome {
  StateHashes hashes;
  std::string wrong;
};

StageOutcome run_stage(const Deck& run, int stage, const Profile& profile, Context& context,
                       const Lanes& lanes, Peers& peers, Fault fault) {
  const Deck deck = small_deck(run, stage);
  const Batch batch = batch_for(peers.size());
  const Program program = build_program(deck, batch, peers.size(), peers.rank(), profile);
  require_legal(check(program));
  Session session(deck, program, lanes, context, SessionOptions{.fault = fault});
  session.steps().init();
  for (std::int64_t s = 0; s < steps; ++s) session.steps().step(s);
  StageOutcome o;
  for (const std::string& text :
       peers.gather(compare_with_closed_form(program, session.executor())))
    if (o.wrong.empty() && !text.empty()) o.wrong = fmt::format("stage {}: {}", stage, text);
  o.hashes = hash_states(context, program, session.executor(), peers);
  return o;
}

}  // namespace

std::string self_check(const Deck& deck, const Profile& profile, Context& context,
                       const Lanes& lanes, Peers& peers, Fault fault) {
  // A NaN is put into the real run only, whose loss has to show it.
  const Fault here = fault == Fault::nan || fault == Fault::leak ? Fault::none : fault;
  auto stage = [&](int s) { return run_stage(deck, s, profile, context, lanes, peers, here); };
  const StageOutcome mine = stage(deck.zero.stage);
  if (!mine.wrong.empty()) return mine.wrong;
  if (!mine.hashes.disagreement.empty()) return mine.hashes.disagreement;
  const StageOutcome zero = deck.zero.stage == 0 ? mine : stage(0);
  if (!zero.wrong.empty()) return zero.wrong;
  if (zero.hashes.param != mine.hashes.param || zero.hashes.master != mine.hashes.master ||
      zero.hashes.momentum != mine.hashes.momentum || zero.hashes.variance != mine.hashes.variance)
    return fmt::format("stage {} gives param {:016x}, stage 0 gives {:016x}", deck.zero.stage,
                       mine.hashes.param, zero.hashes.param);
  return {};
}

}  // namespace shardmark
