// SPDX-License-Identifier: Apache-2.0
// Refuses counts that exceed 63 bits, and plans that take too long, before anything is sized.
#include <fmt/core.h>

#include <core/error.hpp>
#include <core/plan/deck/checked.hpp>
#include <core/plan/deck/decoder_modules.hpp>
#include <io/deck/deck_sections.hpp>

namespace shardmark {
namespace {

// The most bytes that a parameter can cost: param, grad, master, momentum and variance in fp32, a
// gathered copy, and one more copy for temporary buffers of a step.
constexpr std::int64_t bytes_per_param = std::int64_t{4} * 7;

// Parameter tensors of one layer.
std::int64_t tensors_per_layer(const ModelSpec& m) {
  std::int64_t tensors = 0;
  const Decoder& d = *decoder_of(m);
  for (const Role role : roles_of(d))
    if (in_block(role)) tensors += tensors_of(d, role);
  return tensors + 2 * static_cast<std::int64_t>(d.adapter.targets.size());
}

// A plan has about a hundred events for each tensor, and has to be made in seconds. The largest
// dense models have 1 200 tensors.
void check_tensors(const Deck& deck) {
  constexpr std::int64_t most_tensors = 16'384;
  const ModelSpec& m = deck.model;
  const bool list = m.family == Family::list;
  std::int64_t tensors = list ? 0 : m.layers * tensors_per_layer(m) + 5;
  for (const ListModule& module : m.modules)
    tensors += static_cast<std::int64_t>(module.numels.size());
  if (tensors <= most_tensors) return;
  throw DeckError(fmt::format(
      "{}: {} = {}: gives {} parameter tensors, must be at most {}, so that a plan takes seconds: "
      "choose {}",
      deck.path, list ? "model.modules" : "model.layers",
      list ? static_cast<std::int64_t>(m.modules.size()) : m.layers, tensors, most_tensors,
      list ? "fewer modules" : "fewer layers"));
}

// The largest activations of one micro-batch: the residual stream, what each block saves, and the
// logits.
void check_activations(const ModelSpec& m, std::int64_t micro) {
  constexpr std::int64_t bytes_kept_per_channel = std::int64_t{4} * 32;
  const auto tokens = checked_mul(micro, m.sequence + 1, "model.sequence x micro-batch");
  const auto channels = checked_mul(tokens, m.hidden, "model.hidden x tokens of a micro-batch");
  const auto kept = checked_mul(channels, bytes_kept_per_channel, "activations of a block, bytes");
  (void)checked_mul(kept, m.layers, "activations of all layers, bytes");
  (void)checked_mul(checked_mul(tokens, m.vocab, "logits"), 4, "logits, bytes");
}

// At most two buckets of fp32, if the stage has buckets. They are allocated as a whole.
void check_buckets(const ZeroSpec& zero) {
  const bool contiguous = zero.knobs.contiguous_gradients || zero.offload_optimizer.enabled;
  if (zero.stage == 0 || !contiguous) return;
  constexpr std::int64_t bytes_per_elem = std::int64_t{2} * 4;
  (void)checked_mul(zero.knobs.reduce_bucket_size, bytes_per_elem,
                    "deepspeed.zero_optimization.reduce_bucket_size = " +
                        std::to_string(zero.knobs.reduce_bucket_size) + ": buckets, bytes");
}

}  // namespace

void check_sizes(const Deck& deck, const Origin& origin) {
  try {
    check_tensors(deck);
    ModelSpec m = deck.model;
    if (m.fit) m.layers = 1;  // model.fit tries more layers only as far as they fit
    (void)checked_mul(most_params(m), bytes_per_param, "model states, bytes");
    if (traits(deck.run.schedule).follows_deepspeed) check_buckets(deck.zero);
    if (traits(m.family).has_arithmetic)
      check_activations(m, deck.zero.micro_batch_size.value_or(1));
  } catch (const PlanError& error) {
    throw DeckError(origin.deck_file() + ": " + error.what());
  }
}

}  // namespace shardmark
