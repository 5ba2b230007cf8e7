// SPDX-License-Identifier: Apache-2.0
// Rules of runs whose gathers are quantized: memory and calls are as predicted in every type and
// with every kind of gather; the modules compute with parameters that differ by no more than the
// quantization allows; losses stay near those of a run without; and a repeated run gives the same
// bits.
#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include <core/numeric/half.hpp>
#include <tests/support/training.hpp>

namespace shardmark::test::quantized_run_test {
namespace {

// Each rank has a multiple of 8 of every parameter.
Deck quantized_deck(Dtype dtype, std::int64_t accumulation = 1) {
  Deck d = small_deck(3, 2 * world() * accumulation, accumulation);
  d.model.hidden = 16 * world();
  d.model.heads = 2;
  set_precision(d, dtype, dtype);
  d.zero.knobs.quantized_weights = true;
  return d;
}

TEST(QuantizedRuns, StayNearThoseWithout) {
  for (const Dtype dtype : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
    SCOPED_TRACE(to_string(dtype));
    Deck deck = quantized_deck(dtype, 2);
    expect_losses_near_those_without(deck, deck.zero.knobs.quantized_weights);
  }
}

TEST(QuantizedRuns, AreAsPredictedWithEveryKindOfGather) {
  for (bool sequential : {false, true})
    for (bool on_host : {false, true})
      for (bool copies : {false, true}) {
        if (copies && (on_host || world() % 2 != 0)) continue;
        Deck deck = quantized_deck(Dtype::bf16, 2);
        deck.zero.knobs.allgather_sequential = sequential;
        deck.zero.offload_param.enabled = on_host;
        deck.zero.knobs.hpz_partition_size = copies ? 2 : 1;
        deck.zero.knobs.max_reuse_distance = sequential ? 0 : 6000;
        SCOPED_TRACE(::testing::Message() << sequential << on_host << copies);
        train_in_groups(deck);
      }
}

// Keeps the parameters with which the first forward pass computes.
class Listening : public Model {
 public:
  using Seen = std::map<int, std::vector<float>>;
  Listening(std::unique_ptr<Model> inner, Seen& seen) : inner_(std::move(inner)), seen_(seen) {}
  void run(const Program& program, const Event& event, std::span<const Bound> operands,
           const StepValues& values) override {
    if (event.kernel == Kernel::forward && values.step == 0)
      for (int i = 0; i < event.params.count; ++i) {
        auto& to = seen_[program.param_ids[event.params.first + i]];
        const Bound& from = operands[static_cast<std::size_t>(i)];
        to.clear();
        for (std::int64_t e = 0; e < from.elems; ++e)
          to.push_back(from.dtype == Dtype::fp16   ? widen(from.as<Fp16>()[e])
                       : from.dtype == Dtype::bf16 ? widen(from.as<Bf16>()[e])
                                                   : from.as<float>()[e]);
      }
    inner_->run(program, event, operands, values);
  }

 private:
  std::unique_ptr<Model> inner_;
  Seen& seen_;
};

TEST(QuantizedRuns, ComputeWithParametersWithinTheBound) {
  for (const Dtype dtype : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
    SCOPED_TRACE(to_string(dtype));
    Deck deck = quantized_deck(dtype);
    const auto seen_by = [&](bool quantized) {
      deck.zero.knobs.quantized_weights = quantized;
      Listening::Seen seen;
      Training t(deck, MPI_COMM_WORLD, {}, [&](std::unique_ptr<Model> inner) {
        return std::make_unique<Listening>(std::move(inner), seen);
      });
      t.init();
      t.step();
      return seen;
    };
    const auto have = seen_by(true), want = seen_by(false);
    ASSERT_EQ(have.size(), want.size());
    std::int64_t beyond_half = 0, changed = 0, all = 0;
    // Parameters that were gathered together may share a group.
    float largest = 0;
    for (const auto& [id, values] : want)
      for (const float v : values) largest = std::max(largest, std::abs(v));
    const float step = largest / 128, rounding = largest * 0x1p-8f;
    for (const auto& [id, values] : want)
      for (std::size_t i = 0; i < values.size(); ++i) {
        const float error = std::abs(have.at(id)[i] - values[i]);
        ASSERT_LE(error, step + rounding) << "parameter " << id << ", element " << i;
        ++all;
        changed += error > 0;
        beyond_half += error > step / 2 + rounding;
      }
    EXPECT_LE(beyond_half, all / 100) << "only clamped elements";
    EXPECT_EQ(changed > 0, world() > 1);
  }
}

}  // namespace
}  // namespace shardmark::test::quantized_run_test
