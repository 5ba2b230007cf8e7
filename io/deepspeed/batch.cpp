// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <core/error.hpp>
#include <core/plan/deck/checked.hpp>
#include <io/deepspeed/config.hpp>

namespace shardmark {
namespace {

constexpr const char* train_key = "train_batch_size";
constexpr const char* micro_key = "train_micro_batch_size_per_gpu";
constexpr const char* steps_key = "gradient_accumulation_steps";

std::int64_t product(std::int64_t micro, std::int64_t steps, int world, const std::string& place) {
  try {
    return checked_mul(checked_mul(micro, steps, train_key), world, train_key);
  } catch (const PlanError& error) {
    throw DeckError(fmt::format("{}: deepspeed.{}", place, error.what()));
  }
}

void need_positive(const std::string& place, const char* key, std::int64_t value) {
  if (value < 1)
    throw DeckError(fmt::format("{}: deepspeed.{} = {}: must be greater than 0: correct it", place,
                                key, value));
}

// DeepSpeed rounds down and then asserts; this message says which number does not divide which.
[[noreturn]] void refuse_train(const ZeroSpec& zero, const Batch& batch, int world,
                               const std::string& place) {
  const std::int64_t train = *zero.train_batch_size;
  if (zero.micro_batch_size && zero.accumulation_steps)
    throw DeckError(
        fmt::format("{}: deepspeed.{} = {}: must equal {} x {} x ranks = {} x {} x {} = {}: change "
                    "one of them, or "
                    "leave one out to have it inferred",
                    place, train_key, train, micro_key, steps_key, batch.micro, batch.accumulation,
                    world, product(batch.micro, batch.accumulation, world, place)));
  const bool micro_given = zero.micro_batch_size.has_value();
  const bool steps_given = zero.accumulation_steps.has_value();
  const std::int64_t part = micro_given ? batch.micro : steps_given ? batch.accumulation : 1;
  const std::string by =
      micro_given || steps_given
          ? fmt::format("{} x ranks = {} x {}", micro_given ? micro_key : steps_key, part, world)
          : fmt::format("ranks = {}", world);
  throw DeckError(
      fmt::format("{}: deepspeed.{} = {}: must be a multiple of {}: change one of them, or "
                  "the number of ranks",
                  place, train_key, train, by));
}

Batch inferred(const ZeroSpec& zero, int world, const std::string& place) {
  if (world < 1) throw DeckError(fmt::format("{}: ranks = {}: must be at least 1", place, world));
  const auto& train = zero.train_batch_size;
  const auto& micro = zero.micro_batch_size;
  const auto& steps = zero.accumulation_steps;
  if (!train && !micro)
    throw DeckError(
        fmt::format("{}: deepspeed: missing: DeepSpeed needs a batch size: give {} or {}", place,
                    train_key, micro_key));
  if (train) need_positive(place, train_key, *train);
  if (micro) need_positive(place, micro_key, *micro);
  if (steps) need_positive(place, steps_key, *steps);

  Batch batch;
  if (!train) {
    batch.micro = *micro;
    batch.accumulation = steps.value_or(1);
    batch.global = product(batch.micro, batch.accumulation, world, place);
    return batch;
  }
  batch.global = *train;
  if (micro) {
    batch.micro = *micro;
    batch.accumulation = steps ? *steps : *train / *micro / world;
  } else {
    batch.accumulation = steps.value_or(1);
    batch.micro = *train / world / batch.accumulation;
  }
  if (product(batch.micro, batch.accumulation, world, place) != batch.global)
    refuse_train(zero, batch, world, place);
  return batch;
}

}  // namespace

// When DeepSpeed reads the batch, it knows which ranks divide samples, but not which ones divide
// layers. (A degree that does not divide the ranks is refused where the groups are made.)
Batch infer_batch(const ZeroSpec& zero, int world, const std::string& place) {
  const auto parts = static_cast<int>(world / zero.parallel.sequence);
  Batch batch = inferred(zero, parts > 0 ? parts : world, place);
  batch.global /= zero.parallel.train_batch_size(1);
  return batch;
}

Batch infer_batch(const Deck& deck, int world) {
  return infer_batch(deck.zero, world, deck.batch_file);
}

}  // namespace shardmark
