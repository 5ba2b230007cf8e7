// SPDX-License-Identifier: Apache-2.0
// Rule: what a step of AdamW made of parameters is proved from the parameters before it and the
// states after it, which the proof leaves as they are; a single wrong bit is seen.
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include <core/nn/products/matmul.hpp>
#include <core/random.hpp>
#include <miniapp/prove/step_prover.hpp>
#include <tests/core/nn/models/single_process.hpp>

namespace shardmark::test::update_proof_test {
namespace {

constexpr std::int64_t elems = (1 << 19) + 1003;  // whole pieces and parts of one
constexpr std::int64_t cut = 7001, first_elem = 123;

// Shards of a rank before and after a step.
struct Step {
  AdamWStep step{1e-2, 0.9, 0.95, 1e-6, 0.1, 3};
  std::vector<float> before;
  Buffer<float> master, momentum, variance;
  MatMul matmul{0};
  Context context{Space(), matmul};

  Step() : master(elems), momentum(elems), variance(elems) {
    const auto draw = [](std::int64_t i, std::uint64_t what) {
      const auto random = splitmix64(static_cast<std::uint64_t>(i) * 4 + what);
      return static_cast<float>(random >> 40) * 0x1p-23F - 1;
    };
    Buffer<float> gradient(elems);
    for (std::int64_t i = 0; i < elems; ++i) {
      before.push_back(draw(i, 0));
      master[i] = before.back();
      momentum[i] = draw(i, 1), variance[i] = std::abs(draw(i, 2)), gradient[i] = draw(i, 3);
    }
    const Number clip(0.5);
    adamw_update(context, elems, master.data(), gradient.data(), momentum.data(), variance.data(),
                 step, clip.data());
  }
  UpdatedRange range(std::int64_t first, std::int64_t end) const {
    return {first_elem + first,      end - first,
            before.data() + first,   master.data() + first,
            momentum.data() + first, variance.data() + first};
  }
  // In two ranges, as two parameters have them.
  std::string wrong(const std::optional<AdamWStep>& made) const {
    const std::vector<UpdatedRange> ranges{range(0, cut), range(cut, elems)};
    return compare_updates(sketch_updates(context, ranges, made));
  }
};

TEST(UpdateProof, HoldsForTheUpdateThatWasMade) {
  const Step s;
  EXPECT_EQ(s.wrong(s.step), "");
  EXPECT_EQ(s.wrong(s.step), "") << "the proof must leave the states alone";
}

TEST(UpdateProof, SeesOneBitAnywhere) {
  for (const std::int64_t i : {std::int64_t{0}, cut - 1, cut, elems - 1}) {
    Step s;
    s.master[i] = std::nextafter(s.master[i], 2.0F);
    EXPECT_NE(s.wrong(s.step), "") << i;
  }
}

TEST(UpdateProof, SeesOtherHyperparameters) {
  const Step s;
  for (double AdamWStep::*const of : {&AdamWStep::lr, &AdamWStep::eps, &AdamWStep::weight_decay}) {
    AdamWStep other = s.step;
    other.*of *= 1.5;
    EXPECT_NE(s.wrong(other), "");
  }
  AdamWStep other = s.step;
  ++other.step;
  EXPECT_NE(s.wrong(other), "") << "bias correction";
}

TEST(UpdateProof, SeesThatASkippedStepChangedSomething) {
  Step s;
  EXPECT_NE(s.wrong({}), "");
  for (std::int64_t i = 0; i < elems; ++i) s.master[i] = s.before[static_cast<std::size_t>(i)];
  EXPECT_EQ(s.wrong({}), "");
}

}  // namespace
}  // namespace shardmark::test::update_proof_test
