// SPDX-License-Identifier: Apache-2.0
// From a deck to the program of one rank: checks the counts, builds the model's shape, and calls
// the schedule.
#include <algorithm>

#include <fmt/core.h>

#include <core/error.hpp>
#include <core/plan/build/legal_program.hpp>
#include <core/plan/deepspeed/deepspeed_schedule.hpp>
#include <core/plan/interpret/check.hpp>
#include <core/plan/interpret/owned_elements.hpp>
#include <core/plan/paper/paper_schedule.hpp>
#include <core/plan/partition/muon_groups.hpp>
#include <core/plan/plan.hpp>
#include <core/plan/torch/torch_schedule.hpp>
#include <core/plan/write/rank_groups.hpp>

namespace shardmark {

std::vector<int> ranks_to_check(int world, int rank, std::int64_t events) {
  constexpr std::int64_t very_many = 250'000;
  const int most = events > very_many ? 4 : 16, spread = events > very_many ? 3 : 8;
  std::vector<int> ranks;
  if (world <= most) {
    for (int r = 0; r < world; ++r) ranks.push_back(r);
    return ranks;
  }
  for (int i = 0; i < spread; ++i)
    ranks.push_back(static_cast<int>(static_cast<std::int64_t>(world - 1) * i / (spread - 1)));
  ranks.push_back(rank);
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

std::vector<int> ranks_to_check(const Program& program) {
  std::int64_t events = 0;
  for (const Segment& s : program.segments) events += static_cast<std::int64_t>(s.events.size());
  return ranks_to_check(program.world, program.rank, events);
}

Program build_legal_program(const Deck& deck, const Batch& batch, int world, int rank,
                            const Profile& profile) {
  Program program = build_program(deck, batch, world, rank, profile);
  require_legal(check(program));
  require_legal(check_ranks(ranks_to_check(program), [&](int r) {
    return build_program(deck, batch, world, r, profile, Extent::collectives);
  }));
  return program;
}

namespace {

void prepare_muon(Program& program, const Deck& deck) {
  if (program.schedule != Schedule::deepspeed)
    throw DeckError(fmt::format(
        "{}: deepspeed.optimizer.type = \"Muon\": is modelled under the schedule deepspeed: use "
        "another optimizer",
        deck.path));
  divide_for_muon(program.model, deck.path);
}

}  // namespace

Program build_program(const Deck& deck, const Batch& batch, int world, int rank,
                      const Profile& profile, Extent extent) {
  if (world < 1) throw DeckError("ranks = " + std::to_string(world) + ": must be at least 1");
  if (world > most_ranks)
    throw DeckError(fmt::format(
        "ranks = {}: must be at most {}: the messages of a bucket are listed rank by rank, and no "
        "machine has as many accelerators",
        world, most_ranks));
  if (rank < 0 || rank >= world)
    throw DeckError("rank = " + std::to_string(rank) + ": must be 0 to " +
                    std::to_string(world - 1) + " (ranks - 1)");
  if (batch.accumulation > most_micro_batches)
    throw DeckError(fmt::format(
        "{}: deepspeed.gradient_accumulation_steps = {} (given, or train_batch_size divided by "
        "micro-batch and ranks): must be at most {}, since micro-batches are numbered with 32 "
        "bits: choose a larger train_micro_batch_size_per_gpu",
        deck.path, batch.accumulation, most_micro_batches));
  require_groups(deck, world);
  Program p;
  p.world = world;
  p.rank = rank;
  p.mesh = Mesh(world, rank, deck.zero.parallel);
  p.shard_ranks = p.partition_ranks();
  p.stage = deck.zero.stage;
  p.schedule = deck.run.schedule;
  p.reductions = deck.run.reductions;
  p.memory_mode = deck.run.memory_mode;
  p.extent = extent;
  p.trains = deck.run.compute == Compute::train && traits(deck.model.family).has_arithmetic;
  p.batch = batch;
  ModelSpec spec = deck.model;
  spec.part = {p.mesh.tensor_ranks(), p.mesh.tensor_rank()};
  spec.sequence_part = {p.mesh.sequence_ranks(), p.mesh.sequence_rank()};
  spec.expert_part = {p.mesh.expert_ranks(), p.mesh.expert_rank()};
  if (spec.expert_part.cuts()) {
    Decoder decoder = *spec.decoder;
    decoder.moe.shared_last = true;
    spec.decoder = SharedDecoder(std::move(decoder));
  }
  p.model = build_model_shape(spec, deck.run.activation_checkpointing, deck.run.reentrant);
  p.precision = deck.zero.precision;
  p.optimizer = deck.zero.optimizer.type;
  // `ordered` exists to compare runs bit by bit, with offload and without.
  p.zero_is_positive = p.optimizer == Optimizer::host_lion && p.reductions == Reductions::native;
  if (is_muon(p.optimizer)) prepare_muon(p, deck);
  add_mesh(p);
  switch (p.schedule) {
    case Schedule::deepspeed: write_deepspeed(p, deck, profile); break;
    case Schedule::paper: write_paper(p, deck, profile); break;
    case Schedule::torch: write_torch(p, deck, profile); break;
  }
  if (deck.checkpoint.async && deck.checkpoint.every > 0) add_checkpoint_staging(p);
  return p;
}

}  // namespace shardmark
