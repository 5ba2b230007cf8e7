// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <core/error.hpp>
#include <core/plan/build/remedies.hpp>

namespace shardmark {
namespace {

struct Change {
  std::string name;
  Deck deck;
  Batch batch;
};

std::vector<Change> changes(const Deck& deck, const Batch& batch) {
  std::vector<Change> list;
  const auto add = [&](std::string name, const auto& make) {
    make(list.emplace_back(std::move(name), deck, batch));
  };
  const ZeroSpec& zero = deck.zero;
  const bool deepspeed = traits(deck.run.schedule).follows_deepspeed;
  for (int stage = zero.stage + 1; stage <= 3; ++stage)
    add(fmt::format("ZeRO stage {}", stage), [&](Change& c) { c.deck.zero.stage = stage; });
  if (deepspeed && zero.stage > 0 && !zero.offload_optimizer.enabled)
    add("offload_optimizer", [](Change& c) { c.deck.zero.offload_optimizer.enabled = true; });
  if (deepspeed && zero.stage == 3 && !zero.offload_param.enabled)
    add("offload_param", [](Change& c) { c.deck.zero.offload_param.enabled = true; });
  if (zero.offload_param.enabled)
    add("no offload_param", [](Change& c) { c.deck.zero.offload_param = {}; });
  else if (zero.offload_optimizer.enabled)
    add("no offload_optimizer", [](Change& c) { c.deck.zero.offload_optimizer = {}; });
  if (deck.run.shard_size > 0)
    add("no run.shard_size", [](Change& c) { c.deck.run.shard_size = 0; });
  if (zero.knobs.hpz_partition_size > 1)
    add("no zero_hpz_partition_size", [](Change& c) { c.deck.zero.knobs.hpz_partition_size = 1; });
  if (!deck.run.activation_checkpointing && deck.run.compute == Compute::train)
    add("run.activation_checkpointing",
        [](Change& c) { c.deck.run.activation_checkpointing = true; });
  if (batch.micro > 1)
    add(fmt::format("train_micro_batch_size_per_gpu 1 with gradient_accumulation_steps {}",
                    batch.accumulation * batch.micro),
        [](Change& c) {
          c.batch.accumulation *= c.batch.micro;
          c.batch.micro = 1;
        });
  if (const std::int64_t bucket = zero.knobs.reduce_bucket_size / 10;
      deepspeed && zero.stage > 0 && bucket > 0)
    add(fmt::format("reduce_bucket_size {}", bucket),
        [&](Change& c) { c.deck.zero.knobs.reduce_bucket_size = bucket; });
  if (deepspeed && zero.stage == 3)
    add("stage3_max_live_parameters 0 and stage3_prefetch_bucket_size 0", [](Change& c) {
      c.deck.zero.knobs.max_live_parameters = c.deck.zero.knobs.prefetch_bucket_size = 0;
    });
  if (deck.run.memory_mode == MemoryMode::pooled)
    add("run.memory_mode \"strict\"",
        [](Change& c) { c.deck.run.memory_mode = MemoryMode::strict; });
  return list;
}

}  // namespace

std::vector<std::string> changes_that_fit(const Deck& deck, const Batch& batch, int world, int rank,
                                          const Profile& profile, const Fits& fits) {
  std::vector<std::string> fitting;
  for (Change& change : changes(deck, batch)) {
    const auto planned = [&](Extent extent) {
      return fits(build_program(change.deck, change.batch, world, rank, profile, extent));
    };
    try {
      if (planned(Extent::start_up) && planned(Extent::whole))
        fitting.push_back(std::move(change.name));
    } catch (const Error&) {
      continue;  // the schedule has no such plan
    }
  }
  return fitting;
}

}  // namespace shardmark
