// SPDX-License-Identifier: Apache-2.0
// Rule: the program trains as an independent float64 implementation does: losses within 1e-6,
// gradient and final norms within 5e-6 (relative), at every stage, rank count and reduction, and
// with accumulation; 16-bit types within their rounding. It trains as DeepSpeed was recorded to.
#include <cmath>
#include <fstream>
#include <optional>
#include <tuple>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <io/deck/deck_reader.hpp>
#include <tests/support/io_scratch.hpp>
#include <tests/support/training.hpp>

namespace shardmark::test::reference_run_test {
namespace {

using nlohmann::json;

Deck deck_of(const json& config, int stage, Reductions reductions) {
  Deck d;
  d.name = "reference";
  d.model.layers = config.at("layers"), d.model.hidden = config.at("hidden");
  d.model.heads = config.at("heads"), d.model.sequence = config.at("sequence");
  if (config.at("family") == "llama") {
    d.model.family = Family::llama;
    d.model.kv_heads = config.at("kv_heads"), d.model.ffn = config.at("ffn");
  }
  d.model.vocab = config.at("vocab"), d.model.tied_head = config.at("tied_head");
  d.data.source = DataSource::uniform;
  d.data.seed = d.run.seed = config.at("seed").get<std::uint64_t>();
  d.zero.stage = stage;
  d.zero.train_batch_size = config.at("batch").get<std::int64_t>();
  d.zero.gradient_clipping = config.at("gradient_clipping");
  const json& o = config.at("optimizer");
  OptimizerSpec& optimizer = d.zero.optimizer;
  optimizer.lr = o.at("lr"), optimizer.eps = o.at("eps");
  optimizer.beta1 = o.at("betas")[0], optimizer.beta2 = o.at("betas")[1];
  optimizer.weight_decay = o.at("weight_decay");
  d.run.reductions = reductions;
  return d;
}

double relative(double have, double want) {
  return std::abs(have - want) / std::abs(want);
}

class Reference : public ::testing::TestWithParam<std::tuple<int, Reductions>> {};

TEST_P(Reference, LossesAndNormsMatch) {
  const auto [stage, reductions] = GetParam();
  std::ifstream file(std::string(SHARDMARK_TESTS) + "/data/transformer_reference.json");
  const json reference = json::parse(file);
  int cases = 0;
  for (const json& c : reference.at("cases")) {
    const json& config = c.at("config");
    ++cases;
    Training t(deck_of(config, stage, reductions), MPI_COMM_WORLD);
    t.init();
    for (std::size_t s = 0; s < c.at("losses").size(); ++s) {
      t.step();
      EXPECT_LT(relative(t.losses[s], c.at("losses")[s]), 1e-6)
          << "case " << cases << " step " << s;
      EXPECT_LT(relative(t.norms[s], c.at("grad_norms")[s]), 5e-6)
          << "case " << cases << " step " << s;
    }
    for (std::size_t id = 0; id < c.at("tensors").size(); ++id) {
      const json& tensor = c.at("tensors")[id];
      const std::string name = tensor.at("name");
      const std::vector<float> values = t.tensor(static_cast<int>(id));
      // The gradient of the k third of attn.qkv.bias is only rounding noise, which Adam amplifies.
      if (name.find("attn.qkv.bias") != std::string::npos) continue;
      double squares = 0;
      for (float v : values) squares += static_cast<double>(v) * v;
      EXPECT_LT(relative(std::sqrt(squares), tensor.at("final_norm")), 5e-6) << name;
    }
  }
  EXPECT_EQ(cases, 5);
}

// ---- accumulation -----------------------------------------------------------------------------

struct Bounds {
  double loss, norm;
};

// The global batch is the reference's, in micro-batches, so the results are the reference's too.
void expect_reference(const Deck& deck, const json& c, std::size_t steps, Bounds bounds) {
  Training t(deck, MPI_COMM_WORLD);
  t.init();
  for (std::size_t s = 0; s < steps; ++s) {
    t.step();
    EXPECT_LT(relative(t.losses[s], c.at("losses")[s]), bounds.loss) << "step " << s;
    EXPECT_LT(relative(t.norms[s], c.at("grad_norms")[s]), bounds.norm) << "step " << s;
  }
}

struct Precision {
  Dtype model, accum;
};

// In 16 bits, stage 0 takes a further step on zeros as DeepSpeed does, so that only its first loss
// and norm are the reference's.
TEST(Accumulation, GivesTheLossesAndNormsOfTheWholeBatch) {
  std::ifstream file(std::string(SHARDMARK_TESTS) + "/data/transformer_reference.json");
  const json c = json::parse(file).at("cases")[0];
  int runs = 0;
  for (const Schedule schedule : {Schedule::paper, Schedule::deepspeed})
    for (int stage : {0, 1, 2, 3})
      for (std::int64_t accumulation : {2, 3})
        for (const auto& [model, accum] :
             {Precision{Dtype::fp32, Dtype::fp32}, Precision{Dtype::bf16, Dtype::bf16},
              Precision{Dtype::bf16, Dtype::fp32}, Precision{Dtype::fp16, Dtype::fp16},
              Precision{Dtype::fp16, Dtype::fp32}}) {
          if (stage == 0 && accum != model) continue;
          Deck d = deck_of(c.at("config"), stage, Reductions::native);
          if (*d.zero.train_batch_size % (accumulation * world()) != 0) continue;
          SCOPED_TRACE(std::string(to_string(schedule)) + " stage " + std::to_string(stage) + " " +
                       std::string(to_string(model)) + " and " + std::string(to_string(accum)) +
                       ", accumulation " + std::to_string(accumulation));
          d.run.schedule = schedule;
          d.zero.accumulation_steps = accumulation;
          set_precision(d, model, accum);
          const bool half = model != Dtype::fp32;
          const bool further = half && stage == 0 && schedule == Schedule::deepspeed;
          if (further) d.zero.precision.loss_scale = {};  // the norm is divided by it
          const Bounds bounds = half ? Bounds{3e-4, 1e-2} : Bounds{1e-6, 5e-6};
          expect_reference(d, c, further ? 1 : 3, bounds);
          ++runs;
        }
  RecordProperty("runs", runs);
}

// Without contiguous_gradients, one tensor is divided in place and several in their copy.
TEST(Averages, AreThoseOfTheWholeBatchWithoutContiguousGradients) {
  std::ifstream file(std::string(SHARDMARK_TESTS) + "/data/transformer_reference.json");
  const json c = json::parse(file).at("cases")[0];
  for (int stage : {1, 2, 3})
    for (std::int64_t bucket : {1, 9000}) {
      SCOPED_TRACE("stage " + std::to_string(stage) + ", bucket " + std::to_string(bucket));
      Deck d = deck_of(c.at("config"), stage, Reductions::native);
      d.zero.knobs.contiguous_gradients = false;
      d.zero.knobs.reduce_bucket_size = bucket;
      expect_reference(d, c, 2, {1e-6, 5e-6});
    }
}

// ---- recorded losses --------------------------------------------------------------------------

// The recordings are of two ranks; other rank counts share the same global batch.
Deck deck_of_recording(const json& all, const json& c, const ScratchFolder& folder) {
  json config = c.at("config");
  const std::int64_t samples = all.at("world_size").get<std::int64_t>() *
                               config.at("train_micro_batch_size_per_gpu").get<std::int64_t>() *
                               config.at("gradient_accumulation_steps").get<std::int64_t>();
  config.erase("train_micro_batch_size_per_gpu");
  config["train_batch_size"] = samples;
  const std::int64_t accumulation = world() == 3 ? 2 : 3;
  config["gradient_accumulation_steps"] = accumulation;
  const json deck = {{"name", c.at("name")},
                     {"model", all.at("model")},
                     {"data", {{"source", "uniform"}}},
                     {"deepspeed", config},
                     {"run", {{"steps", 3}, {"seed", all.at("seed")}}}};
  return read_deck(folder.write("deck.json", deck.dump()), {}, DeckUse::run).deck;
}

using MomentBytes = std::pair<std::int64_t, std::int64_t>;  // momentum, variance

MomentBytes moment_bytes(const Program& p) {
  MomentBytes bytes{};
  for (const Slot& s : p.slots) {
    if (s.category == Category::momentum) bytes.first += alloc_bytes(s);
    if (s.category == Category::variance) bytes.second += alloc_bytes(s);
  }
  return bytes;
}

// By the names that PyTorch's and DeepSpeed's optimizers give their states.
MomentBytes recorded_moment_bytes(const json& state_bytes) {
  MomentBytes bytes{};
  for (const auto& [name, size] : state_bytes.items())
    (name == "exp_avg" || name == "momentum_buffer" ? bytes.first : bytes.second) +=
        size.get<std::int64_t>();
  return bytes;
}

// The rates of DeepSpeed's two parameter groups, recorded before the step in nine digits.
void expect_rates(const StepValues& values, const json& recorded) {
  EXPECT_NEAR(values.lr, recorded[0], 1e-10);
  EXPECT_NEAR(values.adam_lr, recorded[1], 1e-10);
}

// Steps overflow by the sums of a rank, and gradients are lost by where they lie in its partition,
// so the cases with skipped steps and with lost gradients are compared on as many ranks. Losses,
// reported norms, loss scales and skipped steps, at stage 0 too, where DeepSpeed's optimizer has
// counted a step before the first and its fp16 does not scale the loss. fp16's window of three
// steps makes the scale double several times.
void expect_recorded(const char* file_name, int least_cases, Bounds fp32_bounds = {2e-6, 2e-5},
                     std::optional<Bounds> at_stage_0 = {}) {
  std::ifstream file(std::string(SHARDMARK_TESTS) + "/data/" + file_name);
  const json all = json::parse(file);
  const ScratchFolder folder;
  const bool same_ranks = world() == all.at("world_size").get<int>();
  int cases = 0;
  for (const json& c : all.at("cases")) {
    ++cases;
    const auto name = c.at("name").get<std::string>();
    SCOPED_TRACE(name);
    const bool follows_ranks =
        name.find("skips") != std::string::npos || name.find("loses") != std::string::npos;
    if (follows_ranks && !same_ranks) continue;
    const bool fp32 = !c.at("config").contains("fp16") && !c.at("config").contains("bf16");
    const bool stage_0 = c.at("config").at("zero_optimization").at("stage") == 0;
    const Bounds of_stage = stage_0 ? at_stage_0.value_or(fp32_bounds) : fp32_bounds;
    const Bounds bounds = fp32 ? of_stage : Bounds{2e-4, 2e-2};
    Training t(deck_of_recording(all, c, folder), MPI_COMM_WORLD);
    t.init();
    for (std::size_t s = 0; s < c.at("losses").size(); ++s) {
      t.step();
      EXPECT_EQ(t.runner().values().loss_scale, c.at("scales")[s].get<double>()) << "step " << s;
      EXPECT_EQ(t.skipped.back(), c.at("skipped")[s] == 1) << "step " << s;
      if (c.contains("lrs")) expect_rates(t.runner().values(), c.at("lrs")[s]);
      EXPECT_LT(relative(t.losses[s], c.at("losses")[s]), bounds.loss) << "step " << s;
      if (!c.at("norms")[s].is_null()) {
        EXPECT_LT(relative(t.norms[s], c.at("norms")[s]), bounds.norm) << "step " << s;
      }
    }
    if (same_ranks && t.program().rank == 0 && c.contains("state_bytes")) {
      EXPECT_EQ(moment_bytes(t.program()), recorded_moment_bytes(c.at("state_bytes")));
    }
  }
  EXPECT_GE(cases, least_cases);
}

TEST(Recorded, LossesNormsScalesAndSkippedStepsAreThoseOfDeepSpeed) {
  expect_recorded("deepspeed_losses.json", 16);
}

// Lion, SGD and Adagrad, and the bytes of their states.
TEST(Recorded, OtherOptimizersTrainAsInDeepSpeed) {
  expect_recorded("deepspeed_optimizers.json", 40);
}

// Muon iterates in 16 bits, and a singular value near zero grows by two orders of magnitude, with
// its rounding. The norms of updates differed by at most 2.2e-3 and losses by 2e-6; at stage 0,
// where clipping does not shorten updates, by 3.6e-6 with iterations in fp16 and 2.1e-5 in bf16.
TEST(Recorded, MuonTrainsAsInDeepSpeed) {
  expect_recorded("deepspeed_muon.json", 83, {1e-5, 5e-3}, Bounds{4e-5, 5e-3});
}

INSTANTIATE_TEST_SUITE_P(Stages, Reference,
                         ::testing::Combine(::testing::Values(0, 1, 2, 3),
                                            ::testing::Values(Reductions::native,
                                                              Reductions::ordered)));

}  // namespace
}  // namespace shardmark::test::reference_run_test
