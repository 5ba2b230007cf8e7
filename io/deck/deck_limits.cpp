// SPDX-License-Identifier: Apache-2.0
// Refuses counts that exceed 63 bits before anything is sized with them.
#include <core/plan/deck/checked.hpp>
#include <io/deck/deck_sections.hpp>

namespace shardmark {
namespace {

// The most bytes that a parameter can cost: param, grad, master, momentum and variance in fp32, a
// gathered copy, and one more copy for temporary buffers of a step.
constexpr std::int64_t bytes_per_param = 4 * 7;

// The largest activations of one micro-batch: the residual stream, what each block saves, and the
// logits.
void check_activations(const ModelSpec& m, std::int64_t micro) {
  constexpr std::int64_t bytes_kept_per_channel = 4 * 32;
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
  constexpr std::int64_t bytes_per_elem = 2 * 4;
  (void)checked_mul(zero.knobs.reduce_bucket_size, bytes_per_elem,
                    "deepspeed.zero_optimization.reduce_bucket_size = " +
                        std::to_string(zero.knobs.reduce_bucket_size) + ": buckets, bytes");
}

}  // namespace

void check_sizes(const Deck& deck, const Origin& origin) {
  try {
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
