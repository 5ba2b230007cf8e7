// SPDX-License-Identifier: Apache-2.0
// Rule: a model whose layers or samples the ranks divide has the loss and the
// norm of gradients that the whole model has in double, by difference quotients of the loss.
#include <cmath>

#include <gtest/gtest.h>

#include <io/data/tokens.hpp>
#include <tests/core/nn/models/reference_model.hpp>
#include <tests/support/divided.hpp>

namespace shardmark::test::divided_gradients_test {
namespace {

// Small enough for two losses per parameter.
Deck tiny_llama(int stage) {
  Deck deck = llama_deck(stage);
  deck.model.layers = 2, deck.model.hidden = 16, deck.model.ffn = 12, deck.model.vocab = 12;
  deck.model.sequence = 8;
  deck.zero.gradient_clipping = 1e9;
  return deck;
}

// The first values of the undivided model, parameter after parameter.
Doubles first_values(const Deck& deck) {
  Training whole(deck, MPI_COMM_WORLD);
  whole.init();
  Doubles values;
  for (int id = 0; id < std::ssize(whole.program().model.params); ++id)
    for (const float v : whole.tensor(id)) values.push_back(v);
  return values;
}

struct LossAndNorm {
  double loss = 0, norm = 0;
};

LossAndNorm in_double(const Deck& deck) {
  const std::int64_t batch = *deck.zero.train_batch_size;
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(batch * (deck.model.sequence + 1)));
  make_token_source(deck)->fill(0, 0, batch, tokens.data());
  const ReferenceModel model(deck.model, batch);
  Doubles at = first_values(deck);
  LossAndNorm result{model.loss(at, tokens.data()), 0};
  constexpr double h = 1e-5;
  for (double& v : at) {
    const double kept = v;
    v = kept + h;
    const double above = model.loss(at, tokens.data());
    v = kept - h;
    const double slope = (above - model.loss(at, tokens.data())) / (2 * h);
    v = kept;
    result.norm += slope * slope;
  }
  result.norm = std::sqrt(result.norm);
  return result;
}

void expect_in_double(const Deck& deck, const LossAndNorm& want) {
  Training t(deck, MPI_COMM_WORLD);
  t.init();
  t.step();
  EXPECT_NEAR(t.losses[0], want.loss, 1e-6 * want.loss);
  EXPECT_NEAR(t.norms[0], want.norm, 1e-5 * want.norm);
}

TEST(DividedGradients, AreThoseOfTheWholeModelInDouble) {
  const LossAndNorm want = in_double(tiny_llama(0));
  for (const int stage : {0, 1, 2, 3}) {
    expect_in_double(tiny_llama(stage), want);
    for (const int ranks : degrees()) {
      SCOPED_TRACE(::testing::Message() << "stage " << stage << ", over " << ranks);
      Deck layers = tiny_llama(stage);
      layers.zero.parallel.tensor = ranks;
      expect_in_double(layers, want);
      Deck samples = tiny_llama(stage);
      samples.zero.parallel.sequence = ranks;
      expect_in_double(samples, want);
    }
  }
}

}  // namespace
}  // namespace shardmark::test::divided_gradients_test
