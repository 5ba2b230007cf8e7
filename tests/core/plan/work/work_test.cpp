// SPDX-License-Identifier: Apache-2.0
// Rules of the work of a step, from the sizes of a model alone: products take 2 flops per weight
// and token forward and twice that backward, checkpointing adds a forward pass of the blocks, and
// an update reads and writes each state once, at whatever stage it runs.
#include <gtest/gtest.h>

#include <core/plan/deck/decoder_modules.hpp>
#include <core/plan/kernels.hpp>
#include <core/plan/model/transformer_sizes.hpp>
#include <core/plan/work/step_work.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::test::work_test {
namespace {

// The flops of linear layers and of attention, and the elements and bytes of updates, in one step.
struct Sum {
  double forward = 0, backward = 0, attention_forward = 0, attention_backward = 0;
  double updated = 0, update_bytes = 0;
};

Sum sum_of(const Program& p) {
  Sum sum;
  for (const int segment : segments_of(p.steps.back(), false))
    for (const Event& e : p.segments[static_cast<std::size_t>(segment)].events) {
      const Work work = work_of(p, e);
      for (const Product& product : work.products) switch (product.part) {
          case ProductPart::linear:
            (e.kernel == Kernel::forward ? sum.forward : sum.backward) += product.flops();
            break;
          case ProductPart::attention_forward: sum.attention_forward += product.flops(); break;
          case ProductPart::attention_backward: sum.attention_backward += product.flops(); break;
        }
      if (!is_update(e.kernel)) continue;
      for (const Stream& stream : work.streams)
        sum.updated += stream.elems, sum.update_bytes += stream.bytes;
    }
  return sum;
}

constexpr double layers = 2, hidden = 24, vocab = 31, sequence = 10, micro = 2;
constexpr double tokens = micro * sequence;
constexpr double blocks = layers * 12 * hidden * hidden;  // weights of the blocks' linear layers

TEST(Work, OfAStepFollowsFromTheModel) {
  for (const int stage : {0, 1, 2, 3})
    for (const bool bf16 : {false, true}) {
      Deck deck = gpt2_deck(stage);
      PrecisionSpec& types = deck.zero.precision;
      if (bf16) types.model = types.comm = types.grad_accum = Dtype::bf16;
      const Sum sum = sum_of(program(deck, 1, 0));
      EXPECT_EQ(sum.forward, 2 * tokens * (blocks + hidden * vocab)) << "stage " << stage;
      EXPECT_EQ(sum.backward, 2 * sum.forward) << "stage " << stage;
      EXPECT_EQ(sum.attention_forward, layers * 2 * 2 * micro * sequence * sequence * hidden);
      EXPECT_EQ(sum.attention_backward, 2.5 * sum.attention_forward) << "scores are made again";
    }
}

// Three experts per token of seven, with a shared one beside them; the other layer is dense.
Deck mixture_deck() {
  Deck deck = gpt2_deck(1);
  ModelSpec& m = deck.model;
  m.family = Family::decoder, m.kv_heads = m.heads, m.ffn = 40;
  Decoder d = decoder_like(Family::llama);
  d.moe.experts = 7, d.moe.per_token = 3, d.moe.ffn = 5, d.moe.shared_ffn = 9;
  d.moe.layers = {1, 0};
  d.modules.clear();
  for (const Role role : roles_of(d))
    d.modules.push_back({(in_block(role) ? "h.*." : "") + std::string(to_string(role)), role});
  m.decoder = SharedDecoder(std::move(d));
  return deck;
}

TEST(Work, OfAMixtureIsThatOfTheExpertsThatTokensHave) {
  const Deck deck = mixture_deck();
  const Program p = program(deck, 1, 0);
  const double attention = layers * 4 * hidden * hidden, dense = 3 * hidden * 40;
  const double router = 7 * hidden, experts = 3 * 3 * hidden * 5, shared = 3 * hidden * 9;
  const double weights = attention + dense + router + experts + shared + hidden * vocab;
  const Sum sum = sum_of(p);
  EXPECT_EQ(sum.forward, 2 * tokens * weights) << "the factor of the shared expert is no product";
  EXPECT_EQ(sum.backward, 2 * sum.forward);
  EXPECT_NEAR(model_flops_per_token(p.model),
              6 * (weights + hidden) + 12 * layers * hidden * sequence, 1e-6);
}

TEST(Work, OfATokenIsTheSameIfRanksDivideLayers) {
  ModelSpec spec = gpt2_deck(1).model;
  spec.family = Family::llama, spec.heads = spec.kv_heads = 2, spec.ffn = 40, spec.vocab = 64;
  const ModelShape whole = build_model_shape(spec);
  spec.part = {.ranks = 2, .rank = 1};
  const ModelShape part = build_model_shape(spec);
  EXPECT_DOUBLE_EQ(model_flops_per_token(part), model_flops_per_token(whole));
  EXPECT_LT(part.elems, whole.elems);
  spec.kv_heads = 1;
  const double with_one_key = model_flops_per_token(build_model_shape(spec));
  spec.part.rank = 0;
  EXPECT_DOUBLE_EQ(with_one_key, model_flops_per_token(build_model_shape(spec)));
}

// Beyond the heads of keys a rank has no attention, and only its part of the other products.
TEST(Work, OfARankWithoutHeadsLacksAttentionAlone) {
  Deck deck = gpt2_deck(1);
  ModelSpec& m = deck.model;
  m.family = Family::llama, m.heads = 2, m.kv_heads = 1, m.ffn = 40, m.vocab = 64;
  deck.run.schedule = Schedule::deepspeed;
  const Sum whole = sum_of(program(deck, 2, 0));
  deck.zero.parallel.tensor = 2;
  const Sum first = sum_of(program(deck, 2, 0)), last = sum_of(program(deck, 2, 1));
  EXPECT_EQ(first.forward + last.forward, whole.forward);
  EXPECT_EQ(first.backward + last.backward, whole.backward);
  EXPECT_EQ(first.attention_forward, whole.attention_forward);
  EXPECT_EQ(last.attention_forward + last.attention_backward, 0);
  EXPECT_EQ(last.forward, 2 * tokens * (layers * 3 * hidden * 20 + hidden * 32));
}

TEST(Work, OfATokenIsTheSameIfRanksDivideExperts) {
  Deck deck = mixture_deck();
  Decoder decoder = *deck.model.decoder;
  decoder.moe.experts = 8;
  deck.model.decoder = SharedDecoder(std::move(decoder));
  ModelSpec spec = deck.model;
  const ModelShape whole = build_model_shape(spec);
  spec.expert_part = {.ranks = 4, .rank = 1};
  const ModelShape part = build_model_shape(spec);
  EXPECT_DOUBLE_EQ(model_flops_per_token(part), model_flops_per_token(whole));
  EXPECT_LT(part.elems, whole.elems);
  EXPECT_EQ(part.parameters, whole.elems);
}

TEST(Work, OfAccumulatedMicroBatchesIsMultiplied) {
  const Sum one = sum_of(program(gpt2_deck(2), 2, 0)),
            three = sum_of(program(gpt2_deck(2), 2, 0, 3));
  EXPECT_EQ(three.forward, 3 * one.forward);
  EXPECT_EQ(three.backward, 3 * one.backward);
  EXPECT_EQ(three.updated, one.updated);
}

// The last product of a block, a third of it, is not made again, because nothing in backward needs
// its output. The re-entrant kind makes it.
TEST(Work, OfCheckpointingIsAnotherForwardOfTheBlocks) {
  Deck deck = gpt2_deck(2);
  const Sum without = sum_of(program(deck, 2, 0));
  deck.run.activation_checkpointing = true;
  for (const bool reentrant : {false, true}) {
    deck.run.reentrant = reentrant;
    const Sum with = sum_of(program(deck, 2, 0));
    EXPECT_EQ(with.forward - without.forward, 2 * tokens * blocks * (reentrant ? 3 : 2) / 3);
    EXPECT_EQ(with.backward, without.backward);
  }
}

// AdamW in fp32: master and two moments are read and written, and the gradient is read.
TEST(Work, OfUpdatesCoversEachOwnedElementOnce) {
  for (const int stage : {0, 1, 2, 3})
    for (const int world : {1, 4}) {
      const Program p = program(gpt2_deck(stage), world, 0);
      const Sum sum = sum_of(p);
      EXPECT_EQ(sum.updated, static_cast<double>(p.partition.per_rank)) << "stage " << stage;
      EXPECT_EQ(sum.update_bytes, 28 * sum.updated) << "stage " << stage;
    }
}

// A GPU adds the residual stream in the product before it, and makes both gradients of a long norm
// in one pass; other software does not.
TEST(Work, OfAGpuFusesTheSumsOfABlock) {
  Deck deck = gpt2_deck(1);
  deck.model.family = Family::llama;
  deck.model.hidden = 1024, deck.model.heads = deck.model.kv_heads = 8, deck.model.ffn = 4096;
  const Program p = program(deck, 1, 0);
  const auto launches = [&](const WorkOptions& options, std::string_view kernel) {
    double sum = 0;
    for (const int segment : segments_of(p.steps.back(), false))
      for (const Event& e : p.segments[static_cast<std::size_t>(segment)].events)
        for (const Stream& s : work_of(p, e, options).streams)
          if (s.kernel == kernel) sum += s.launches;
    return sum;
  };
  const WorkOptions host, gpu{.on_host = false}, other{.on_host = false, .own_kernels = false};
  const double norms = 2 * layers + 1;
  for (const WorkOptions& two : {host, other}) {
    EXPECT_EQ(launches(two, "residual"), 2 * layers);
    EXPECT_EQ(launches(two, "rms_norm_input_gradient"), norms);
    EXPECT_EQ(launches(two, "rms_norm_backward_params"), norms);
    EXPECT_EQ(launches(two, "rms_norm_gradients"), 0);
  }
  EXPECT_EQ(launches(gpu, "residual"), 0);
  EXPECT_EQ(launches(gpu, "rms_norm_input_gradient"), 0);
  EXPECT_EQ(launches(gpu, "rms_norm_gradients"), norms);
}

// Few products make the logits on a GPU. Their rows begin at aligned addresses.
TEST(Work, OfAGpuMakesLogitsInFewAlignedPieces) {
  TransformerDims dims;
  dims.sequence = 2048;
  for (const std::int64_t samples : {1, 8, 64})
    for (const std::int64_t logits : {31, 50257, 128256}) {
      dims.micro_batch = samples, dims.vocab = logits;
      const std::int64_t columns = head_piece_columns(dims, false);
      EXPECT_EQ(columns % 64, 0);
      EXPECT_LE(columns * dims.rows(), std::int64_t{1} << 30);
      const std::int64_t pieces = (logits + columns - 1) / columns;
      EXPECT_LE(pieces, dims.rows() * logits / (std::int64_t{1} << 30) + 2);
    }
}

}  // namespace
}  // namespace shardmark::test::work_test
