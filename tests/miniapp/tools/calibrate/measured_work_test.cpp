// SPDX-License-Identifier: Apache-2.0
// Rule: the work that core/plan/work lists for an event is what the event launches: the same matrix
// products with the same types and forms, and the same kernels, launch by launch.
#include <map>

#include <gtest/gtest.h>

#include <miniapp/tools/calibrate/measured_model.hpp>
#include <tests/support/hf_models.hpp>
#include <tests/support/training.hpp>

namespace shardmark::test::measured_work_test {
namespace {

std::string name_of(const Product& p) {
  return "product " + std::to_string(p.m) + " x " + std::to_string(p.n) + " x " +
         std::to_string(p.k) + " batch " + std::to_string(p.batch) + (p.transpose_a ? " T" : " -") +
         (p.transpose_b ? "T " : "- ") + (p.accumulate ? "+= " : "= ") +
         std::string(to_string(p.type)) + " " + std::string(to_string(p.c_type));
}

// Which products an event should launch, less those that it did.
std::map<std::string, std::int64_t> difference(const Work& work, const MeasuredEvent& measured) {
  std::map<std::string, std::int64_t> counts;
  for (const Product& p : work.products) counts[name_of(p)] += p.count;
  for (const auto& p : measured.products) --counts[name_of(p.product)];
  std::erase_if(counts, [](const auto& c) { return c.second == 0; });
  return counts;
}

// Runs steps of a deck and compares every event of the last one. Returns how many there were.
std::int64_t compare(const Deck& deck) {
  std::int64_t events = 0;
  bool on = false;
  MatMul* matmul = nullptr;
  const Program* program = nullptr;
  const auto check = [&](const Event& event, const MeasuredEvent& measured) {
    ++events;
    const std::string what =
        std::string(to_string(event.kernel)) +
        (event.module >= 0 ? " of " + program->model.modules[event.module].name : "");
    const Work work = work_of(*program, event);
    EXPECT_EQ(difference(work, measured), (std::map<std::string, std::int64_t>{})) << what;
    EXPECT_EQ(measured.unexpected, std::vector<std::string>{}) << what;
    EXPECT_EQ(measured.missing, 0U) << what;
  };
  Training t(deck, MPI_COMM_WORLD, {}, [&](std::unique_ptr<Model> model) {
    return std::make_unique<MeasuredModel>(std::move(model), matmul, on, check);
  });
  matmul = &t.matmul();
  program = &t.program();
  t.init();
  t.bare_step();
  on = true;
  t.bare_step();
  on = false;
  return events;
}

TEST(MeasuredWork, IsWhatPlansListForQuantizedGathers) {
  Deck deck = small_deck(3, 2 * world());
  deck.model.hidden = 16 * world();
  deck.model.heads = 2;
  deck.zero.knobs.quantized_weights = true;
  set_precision(deck, Dtype::bf16, Dtype::bf16);
  EXPECT_GT(compare(deck), 40);
}

// Each rank stands for a node, so a test on one rank sends nothing.
TEST(MeasuredWork, IsWhatPlansListForQuantizedGradients) {
  Deck deck = small_deck(3, 2 * world());
  deck.model.hidden = 16 * world();
  deck.model.heads = 2;
  deck.model.vocab = 32;
  deck.model.sequence = 16;
  deck.zero.knobs.quantized_gradients = true;
  deck.machine.ranks_per_node = 1;
  set_precision(deck, Dtype::fp16, Dtype::fp16);
  EXPECT_GT(compare(deck), 40);
}

TEST(MeasuredWork, IsWhatPlansListAtEveryStage) {
  for (const Schedule schedule : {Schedule::deepspeed, Schedule::paper})
    for (int stage = 0; stage <= 3; ++stage)
      for (const Dtype dtype : {Dtype::fp32, Dtype::bf16}) {
        SCOPED_TRACE(std::string(to_string(schedule)) + " " + std::to_string(stage) + " " +
                     std::string(to_string(dtype)));
        Deck deck = small_deck(stage, 4 * world(), 2);
        deck.run.schedule = schedule;
        deck.run.memory_mode = MemoryMode::pooled;
        set_precision(deck, dtype, schedule == Schedule::paper ? dtype : Dtype::fp32);
        EXPECT_GT(compare(deck), 40);
      }
}

TEST(MeasuredWork, CoversLlamaAndLongSequences) {
  for (const Dtype dtype : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
    SCOPED_TRACE(to_string(dtype));
    Deck deck = small_deck(0, 2 * world());
    deck.run.memory_mode = MemoryMode::pooled;
    deck.model.family = Family::llama;
    deck.model.hidden = 48;
    deck.model.heads = 4;
    deck.model.kv_heads = 2;
    deck.model.ffn = 80;
    deck.model.sequence = 150;  // several tiles of attention, the last one shorter
    deck.model.vocab = 9000;    // several pieces of the head
    set_precision(deck, dtype, dtype);
    EXPECT_GT(compare(deck), 40);
  }
}

// Decoders of all kinds; windows are below their sequences.
TEST(MeasuredWork, CoversDescriptionsOfDecoders) {
  const ScratchFolder folder;
  for (const nlohmann::json& c : hf_cases())
    for (const Dtype dtype : {Dtype::fp32, Dtype::bf16}) {
      SCOPED_TRACE(c.at("config").dump());
      Deck deck = hf_deck(c, 0, folder);
      Decoder balanced = *deck.model.decoder;  // the work that is listed for either routing
      balanced.moe.routing = Routing::balanced;
      deck.model.decoder = SharedDecoder(std::move(balanced));
      deck.run.memory_mode = MemoryMode::pooled;
      set_precision(deck, dtype, dtype);
      EXPECT_GT(compare(deck), 40);
    }
}

TEST(MeasuredWork, CoversRunsWithoutArithmetic) {
  for (const Family family : {Family::gpt2, Family::llama})
    for (int stage = 0; stage <= 3; ++stage) {
      SCOPED_TRACE(std::string(to_string(family)) + " " + std::to_string(stage));
      Deck deck = small_deck(stage, 2 * world());
      deck.model.family = family;
      deck.model.kv_heads = 1;
      deck.model.ffn = 40;
      deck.run.compute = Compute::none;
      set_precision(deck, Dtype::bf16, Dtype::fp32);
      EXPECT_GT(compare(deck), 20);
    }
}

TEST(MeasuredWork, CoversEveryOptimizer) {
  for (const Optimizer type : all_values<Optimizer>) {
    SCOPED_TRACE(to_string(type));
    Deck deck = small_deck(1, 2 * world());
    deck.zero.optimizer.type = type;
    deck.zero.optimizer.momentum = 0.9;
    const Dtype dtype = is_muon(type) ? Dtype::fp32 : Dtype::bf16;
    set_precision(deck, dtype, dtype);
    EXPECT_GT(compare(deck), 40);
    if (!is_muon(type)) continue;
    deck.zero.stage = 0;
    for (const Dtype at_stage_0 : {Dtype::fp32, Dtype::bf16}) {
      set_precision(deck, at_stage_0, at_stage_0);
      EXPECT_GT(compare(deck), 40);
    }
  }
}

}  // namespace
}  // namespace shardmark::test::measured_work_test
