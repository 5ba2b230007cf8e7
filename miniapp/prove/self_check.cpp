// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/core.h>

#include <core/plan/interpret/check.hpp>
#include <core/read_back.hpp>
#include <miniapp/execute/session.hpp>
#include <miniapp/models/list_model.hpp>
#include <miniapp/prove/self_check.hpp>
#include <miniapp/prove/state_hash.hpp>

namespace shardmark {
namespace {

constexpr std::int64_t checked_steps = 2;
Batch batch_for(int world) {
  return {std::int64_t{2} * world, 1, 2};
}

// The largest size of knobs that count elements, of a deck for the self-check.
struct KnobLimits {
  std::int64_t elems, persistent;
};

// The deck of the run with another model, and with knobs that suit its size.
Deck with_model(const Deck& run, int stage, std::vector<ListModule> modules, KnobLimits most) {
  Deck d;
  d.name = "self_check";
  d.model.family = Family::list;
  d.model.modules = std::move(modules);
  d.zero.stage = stage;
  d.zero.parallel = run.zero.parallel;
  d.zero.precision = run.zero.precision;
  d.zero.precision.loss_scale = {};
  if (stage < 2) d.zero.precision.compute.reset();  // PyTorch's DDP is modelled in fp32
  d.zero.knobs = run.zero.knobs;
  d.zero.offload_optimizer = run.zero.offload_optimizer;
  d.zero.offload_param = run.zero.offload_param;
  d.zero.aio = run.zero.aio;
  d.zero.aio.least_bytes = d.zero.aio.alignment_bytes =
      16;  // so that nearly everything goes to files
  ZeroKnobs& k = d.zero.knobs;
  // They would round the values that must be exact.
  k.quantized_weights = k.quantized_gradients = false;
  d.zero.precision.autocast = {};
  for (std::int64_t* size : {&k.reduce_bucket_size, &k.sub_group_size, &k.max_live_parameters,
                             &k.max_reuse_distance, &k.prefetch_bucket_size})
    *size = std::min<std::int64_t>(*size, most.elems);
  k.param_persistence_threshold = std::min(k.param_persistence_threshold, most.persistent);
  if (stage != run.zero.stage) {
    k.prescale_gradients = k.sums_gradients = false;
    k.gradient_predivide_factor = 1;
  }
  // Other factors would round; the nearest power of two takes the same path.
  k.gradient_predivide_factor = std::exp2(std::round(std::log2(k.gradient_predivide_factor)));
  d.run.compute = Compute::none;
  d.run.schedule = run.run.schedule;
  d.run.reductions = run.run.reductions;
  d.run.memory_mode = run.run.memory_mode;
  d.run.shard_size = run.run.shard_size;
  return d;
}

// Odd sizes, one of them smaller than most worlds; containers and modules without parameters; knobs
// so small that there are several of everything.
Deck small_deck(const Deck& run, int stage) {
  return with_model(run, stage,
                    {{"in", {37}},
                     {"h.0", {}},
                     {"h.0.a", {101, 7}},
                     {"h.0.b", {1}},
                     {"h.1", {}},
                     {"h.1.a", {257}},
                     {"h.1.b", {3, 11}},
                     {"out", {64}}},
                    {120, 7});
}

// Messages of real size: in worlds of up to 16 ranks each rank's share of the largest module and of
// the bucket has more than 64 Ki elements, and no block size divides it. The limit keeps the memory
// of the check below the allowance of the smallest runs.
Deck large_deck(const Deck& run, int world) {
  const std::int64_t most = std::int64_t{1} << 20;
  const std::int64_t elems = std::min(world * ((std::int64_t{1} << 16) + 77), most) + 5;
  return with_model(run, run.zero.stage, {{"in", {4099}}, {"h", {elems, 9}}, {"out", {8209}}},
                    {elems + 4000, 1000});
}

// Whether the sums of gradients of the list model stay exact if they are not divided by the number
// of ranks: bf16 has 8 bits.
bool exact_as_sums(const Deck& run, int world) {
  return run.zero.precision.computes_in() == Dtype::fp32 || world <= 8;
}

// Names the first owned master parameter that differs from what this rank computes alone; empty if
// none does.
std::string compare_with_closed_form(const Program& p, const Executor& executor,
                                     std::int64_t gain) {
  for (const StatePiece& piece : p.states) {
    if (piece.state != State::master) continue;
    std::vector<float> have(static_cast<std::size_t>(piece.elems));
    copy_to_host(Space(), have.data(), executor.slot(piece.slot).as<float>() + piece.offset,
                 have.size() * sizeof(float));
    for (std::int64_t i = 0; i < piece.elems; ++i) {
      const double want =
          ListModel::expected_param(piece.first_elem + i, p.partition_ranks(), p.batch.accumulation,
                                    checked_steps, p.precision.computes_in(), gain);
      if (have[i] != static_cast<float>(want))
        return fmt::format("rank {}: element {} of {} is {}, but must be exactly {}", p.rank, i,
                           p.slots[piece.slot].name, have[i], want);
    }
  }
  return {};
}

struct StageOutcome {
  StateHashes hashes;
  std::string wrong;
};

StageOutcome run_stage(const Deck& deck, const Profile& profile, Context& context,
                       const Lanes& lanes, Peers& peers, Fault fault) {
  const int data_ranks = Mesh(peers.size(), peers.rank(), deck.zero.parallel).partition_ranks();
  const Batch batch = batch_for(data_ranks);
  const Program program = build_program(deck, batch, peers.size(), peers.rank(), profile);
  require_legal(check(program));
  Session session(deck, program, lanes, context, SessionOptions{.fault = fault});
  session.executor().watch_slots();
  session.steps().init();
  for (std::int64_t s = 0; s < checked_steps; ++s) session.steps().step(s);
  // At stage 3, gradients are always divided.
  const std::int64_t gain = deck.zero.knobs.sums_gradients && deck.zero.stage < 3 ? data_ranks : 1;
  StageOutcome o;
  std::string wrong = compare_with_closed_form(program, session.executor(), gain);
  if (const SlotUse use = session.executor().end_watch(); wrong.empty() && !use.wrong.empty())
    wrong = fmt::format("rank {}: {}", peers.rank(), use.wrong);
  for (const std::string& text : peers.gather(wrong))
    if (o.wrong.empty() && !text.empty())
      o.wrong = fmt::format("stage {}: {}", deck.zero.stage, text);
  o.hashes = hash_states(context, program, session.executor(), peers);
  return o;
}

}  // namespace

std::string self_check(const Deck& deck, const Profile& profile, Context& context,
                       const Lanes& lanes, Peers& peers, Fault fault) {
  // These are put into the real run only, which has to show them.
  const bool spared = fault == Fault::nan || fault == Fault::leak || fault == Fault::wrong_update;
  const Fault here = spared ? Fault::none : fault;
  const auto outcome = [&](Deck small) {
    if (!exact_as_sums(deck, peers.size())) small.zero.knobs.sums_gradients = false;
    StageOutcome o = run_stage(small, profile, context, lanes, peers, here);
    if (o.wrong.empty()) o.wrong = o.hashes.disagreement;
    return o;
  };
  const StageOutcome mine = outcome(small_deck(deck, deck.zero.stage));
  if (!mine.wrong.empty()) return mine.wrong;
  if (const StageOutcome large = outcome(large_deck(deck, peers.size())); !large.wrong.empty())
    return "large messages: " + large.wrong;
  if (deck.zero.stage == 0 || deck.zero.knobs.sums_gradients) return {};  // other parameters
  const StageOutcome zero = outcome(small_deck(deck, 0));
  if (!zero.wrong.empty()) return zero.wrong;
  if (zero.hashes.of != mine.hashes.of)
    return fmt::format("stage {} gives param {:016x}, stage 0 gives {:016x}", deck.zero.stage,
                       mine.hashes.of[State::param], zero.hashes.of[State::param]);
  return {};
}

}  // namespace shardmark
