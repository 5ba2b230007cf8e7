// SPDX-License-Identifier: Apache-2.0
// Decks whose layers, samples or experts the ranks of a test divide.
#pragma once

#include <string>
#include <vector>

#include <io/deck/deck_reader.hpp>
#include <tests/support/io_scratch.hpp>
#include <tests/support/training.hpp>

namespace shardmark::test {

/// Degrees that divide the ranks of the test.
inline std::vector<int> degrees() {
  std::vector<int> all;
  for (const int t : {2, 4})
    if (world() % t == 0) all.push_back(t);
  return all;
}

/// One sample per rank and micro-batch without division; heads, ffn and vocabulary divide by 4.
inline Deck llama_deck(int stage, std::int64_t accumulation = 1) {
  Deck deck = small_deck(stage, world() * accumulation, accumulation);
  make_llama(deck.model);
  // The gradient of a bias of keys is nearly zero, so that Adam's first updates follow its
  // rounding.
  deck.model.qkv_bias = false;
  deck.model.hidden = 48;
  deck.model.heads = 8;
  deck.model.kv_heads = 4;
  deck.model.ffn = 56;
  deck.model.vocab = 52;
  deck.zero.gradient_clipping = 0.1;  // so small that clipping is active
  return deck;
}
/// The deck with each sample divided over `ranks` ranks.
inline Deck by_samples(Deck deck, int ranks) {
  deck.model.sequence = 8;
  deck.zero.parallel.sequence = ranks;
  return deck;
}

/// One sample per rank and micro-batch, of the decoder that a section `model` describes.
inline Deck decoder_deck(const std::string& model, int stage, std::int64_t accumulation = 1,
                         const std::vector<std::string>& sets = {}) {
  const ScratchFolder folder;
  const std::string path = folder.write("d.json", "{\"model\": " + model + R"(,
      "data": {"source": "uniform"},
      "deepspeed": {"train_micro_batch_size_per_gpu": 1},
      "run": {"steps": 1}})");
  Deck deck = small_deck(stage, world() * accumulation, accumulation);
  deck.model = load_deck(path, sets).model;
  deck.zero.gradient_clipping = 0.1;
  return deck;
}

/// A decoder with norms of q and k, whose sizes neither 2 nor 4 ranks divide evenly.
inline Deck uneven_deck(int stage, std::int64_t accumulation = 1) {
  return decoder_deck(R"({"family": "decoder", "layers": 2, "hidden": 60, "heads": 10,
                          "kv_heads": 5, "ffn": 57, "sequence": 8, "vocab": 53,
                          "norm": {"of_q_and_k": "head"}})",
                      stage, accumulation);
}

/// The deck of uneven_deck with one head of keys and values. Of the ranks that divide its layers,
/// only the first one has attention.
inline Deck one_key_deck(int stage, std::int64_t accumulation = 1) {
  Deck deck = uneven_deck(stage, accumulation);
  deck.model.kv_heads = 1;
  return deck;
}

/// A decoder with norms before and after each sublayer, and with norms of q and k after their
/// products.
inline Deck normed_deck(int stage) {
  return decoder_deck(R"({"family": "decoder", "layers": 2, "hidden": 48, "heads": 8,
                          "kv_heads": 4, "ffn": 56, "sequence": 8, "vocab": 52,
                          "norm": {"place": "both", "of_q_and_k": "head", "q_and_k_last": true}})",
                      stage);
}

/// A mixture with 8 experts, of which each token has 2 by turns. With 8 tokens per sample each
/// expert has as many rows.
inline Deck mixture_deck(int stage, std::int64_t accumulation = 1, std::int64_t sequence = 8,
                         const std::vector<std::string>& sets = {}) {
  Deck deck = decoder_deck(R"({"family": "decoder", "layers": 2, "hidden": 32, "heads": 4,
                               "kv_heads": 2, "ffn": 48, "sequence": 8, "vocab": 52,
                               "routing": "balanced",
                               "moe": {"experts": 8, "per_token": 2, "ffn": 24,
                                       "normalised": true}})",
                           stage, accumulation, sets);
  deck.model.sequence = sequence;
  return deck;
}

/// The deck with layers divided over `t` ranks and experts over `e`.
inline Deck folded(Deck deck, int t, int e) {
  deck.zero.parallel.tensor = t;
  deck.zero.parallel.expert = e;
  deck.zero.optimizer.unfused = true;
  return deck;
}

}  // namespace shardmark::test
