// SPDX-License-Identifier: Apache-2.0
// Rules of a layer without inputs, outputs or rows, as a rank without heads has them: a product
// that adds up nothing is zeros or leaves what it is added to, and one without elements writes
// nothing.
#include <gtest/gtest.h>

#include <core/nn/products/linear.hpp>
#include <tests/core/nn/models/single_process.hpp>

namespace shardmark::test::linear_test {
namespace {

constexpr std::int64_t rows = 3, size = 4;

// The first of many elements that are all one; a product of a layer may write some of them.
class Ones {
 public:
  Ones() {
    for (std::int64_t i = 0; i < ones_.size(); ++i) ones_[i] = 1;
  }
  Stored stored() const { return {ones_.data()}; }
  // How many of them are zeros, which are the first ones.
  std::int64_t zeros() const {
    std::int64_t n = 0;
    while (n < ones_.size() && ones_[n] == 0) ++n;
    for (std::int64_t i = n; i < ones_.size(); ++i) EXPECT_EQ(ones_[i], 1);
    return n;
  }

 private:
  Buffer<float> ones_{32};
};

using LinearLayer = KernelTest;

TEST_F(LinearLayer, OfNoInputsMakesZeros) {
  const Linear layer(ctx, rows, {});
  const Ones x, w, y, added, dx, dw;
  layer.forward(0, size, x.stored(), w.stored(), nullptr, y.stored());
  layer.forward(0, size, x.stored(), w.stored(), nullptr, added.stored(), true);
  layer.backward_input(0, size, y.stored(), w.stored(), dx.stored());
  layer.backward_weight(0, size, y.stored(), x.stored(), dw.stored(), false);
  EXPECT_EQ(y.zeros(), rows * size);
  for (const Ones* unwritten : {&added, &dx, &dw}) EXPECT_EQ(unwritten->zeros(), 0);
  EXPECT_THROW(layer.forward(0, size, x.stored(), w.stored(), w.stored(), y.stored()), PlanError);
}

TEST_F(LinearLayer, OfNoOutputsMakesZerosBackward) {
  const Linear layer(ctx, rows, {});
  const Ones x, w, y, dx, added, dw;
  layer.forward(size, 0, x.stored(), w.stored(), w.stored(), y.stored());
  layer.backward_input(size, 0, y.stored(), w.stored(), dx.stored());
  layer.backward_input(size, 0, y.stored(), w.stored(), added.stored(), true);
  layer.backward_weight(size, 0, y.stored(), x.stored(), dw.stored(), false);
  EXPECT_EQ(dx.zeros(), rows * size);
  for (const Ones* unwritten : {&y, &added, &dw}) EXPECT_EQ(unwritten->zeros(), 0);
}

TEST_F(LinearLayer, OfNoRowsHasAWeightsGradientOfZeros) {
  const Linear layer(ctx, 0, {});
  const Ones x, dy, dw, added;
  layer.backward_weight(size, 2, dy.stored(), x.stored(), dw.stored(), false);
  layer.backward_weight(size, 2, dy.stored(), x.stored(), added.stored(), true);
  EXPECT_EQ(dw.zeros(), size * 2);
  EXPECT_EQ(added.zeros(), 0);
}

}  // namespace
}  // namespace shardmark::test::linear_test
