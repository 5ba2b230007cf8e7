// SPDX-License-Identifier: Apache-2.0
// Refuses counts that exceed 63 bits before anything is sized with them.
#include <core/plan/deck/checked.hpp>
#include <io/deck/deck_sections.hpp>

namespace shardmark {
namespace {

// The most bytes that a parameter can cost: param, grad, master, momentum and variance in fp32, a
// gathered copy, and one more copy for temporary buffers of a step.
constexpr std::int64_t bytes_per_param = 4 * 7;

std::int64_t gpt2_params(const ModelSpec& m) {
  // Per block: qkv, proj, fc and proj have 12 h^2 weights and 9 h biases; the two norms have 4 h.
  const auto square = checked_mul(m.hidden, m.hidden, "model.hidden");
  const auto block =
      checked_add(checked_mul(12, square, "model.hidden"), 13 * m.hidden, "model.hidden");
  const auto blocks = checked_mul(m.layers, block, "model.layers");
  const auto rows = 2 * m.vocab + m.sequence + 2;  // wte, head, wpe, last norm
  return checked_add(blocks, checked_mul(rows, m.hidden, "model.vocab"), "model: parameters");
}

std::int64_t llama_params(const ModelSpec& m) {
  // Per block: q and o have h^2 weights each, k and v h x kv channels, and gate, up and down h x
  // ffn; and there are two norms.
  const auto kv_channels = m.hidden / m.heads * m.kv_heads;
  const auto columns = 2 * m.hidden + 2 * kv_channels + 3 * m.ffn + 2;
  const auto blocks =
      checked_mul(m.layers, checked_mul(m.hidden, columns, "model.ffn"), "model.layers");
  const auto rows = 2 * m.vocab + 1;  // embedding, head, last norm
  return checked_add(blocks, checked_mul(rows, m.hidden, "model.vocab"), "model: parameters");
}

std::int64_t list_params(const ModelSpec& m) {
  std::int64_t sum = 0;
  for (const ListModule& module : m.modules)
    for (const std::int64_t n : module.numels)
      sum = checked_add(sum, n, "model.modules: parameters");
  return sum;
}

std::int64_t params_of(const ModelSpec& m) {
  switch (m.family) {
    case Family::gpt2: return gpt2_params(m);
    case Family::llama: return llama_params(m);
    case Family::list: break;
  }
  return list_params(m);
}

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
    (void)checked_mul(params_of(m), bytes_per_param, "model states, bytes");
    if (deck.run.schedule == "deepspeed") check_buckets(deck.zero);
    if (m.family != Family::list) check_activations(m, deck.zero.micro_batch_size.value_or(1));
  } catch (const PlanError& error) {
    throw DeckError(origin.deck_file() + ": " + error.what());
  }
}

}  // namespace shardmark
