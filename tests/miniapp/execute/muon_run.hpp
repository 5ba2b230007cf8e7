// SPDX-License-Identifier: Apache-2.0
// Small decks with Muon, and trainings of them.
#pragma once

#include <cmath>
#include <filesystem>

#include <tests/support/checkpoints.hpp>

namespace shardmark::test::muon_run {

inline Deck deck_of(int stage, Optimizer muon = Optimizer::muon) {
  Deck d = small_deck(stage, 4 * world());
  d.run.reductions = Reductions::ordered;
  d.zero.knobs.reduce_scatter = stage != 3;
  OptimizerSpec& o = d.zero.optimizer;
  o.type = muon;
  o.lr = 0.02, o.adam_lr = 1e-3, o.momentum = 0.95, o.beta2 = 0.95, o.weight_decay = 0.05;
  set_precision(d, Dtype::fp32, Dtype::fp32);
  return d;
}

inline Deck offloaded(Deck deck) {
  deck.zero.offload_optimizer.enabled = true;
  return deck;
}

// So small that the states of some sub-groups, and pieces of some gradients, go to files.
inline Deck in_files(Deck deck, bool pipelined = false) {
  OffloadSpec& o = deck.zero.offload_optimizer;
  o.enabled = o.nvme = true;
  o.nvme_path = std::filesystem::temp_directory_path();
  o.pipeline_read = o.pipeline_write = pipelined;
  o.buffer_count = 12;
  deck.zero.aio.least_bytes = 1024;
  deck.zero.aio.alignment_bytes = 512;
  deck.zero.knobs.sub_group_size = 3000;
  return deck;
}

inline Deck with_fp32_sums(Dtype half, int stage) {
  Deck deck = deck_of(stage);
  set_precision(deck, half, Dtype::fp32);
  return deck;
}

inline Outcome run(const Deck& deck) {
  Training t(deck, MPI_COMM_WORLD);
  train_as_predicted(t, 3);
  Outcome outcome{t.losses, t.norms, t.hashes()};
  EXPECT_EQ(outcome.hashes.disagreement, "");
  return outcome;
}

// How far three steps move the first matrix.
inline double distance_of_a_matrix(const Deck& deck) {
  Training t(deck, MPI_COMM_WORLD);
  t.init();
  const std::vector<Param>& params = t.program().model.params;
  int id = 0;
  while (!params[static_cast<std::size_t>(id)].hidden_matrix) ++id;
  const std::vector<float> from = t.tensor(id);
  for (int step = 0; step < 3; ++step) t.step();
  const std::vector<float> to = t.tensor(id);
  double squares = 0;
  for (std::size_t i = 0; i < to.size(); ++i) squares += std::pow(double(to[i]) - from[i], 2);
  return std::sqrt(squares);
}

}  // namespace shardmark::test::muon_run
