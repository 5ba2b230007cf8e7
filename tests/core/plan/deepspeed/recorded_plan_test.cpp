// SPDX-License-Identifier: Apache-2.0
// Rule: a plan contains what DeepSpeed was recorded to do: row by row, at start-up, in the first
// step and in the steady state, on every rank. The plan's memory is what DeepSpeed held, to the
// byte.
#include <gtest/gtest.h>

#include <core/plan/interpret/check.hpp>
#include <core/plan/interpret/copy_volume.hpp>
#include <core/plan/interpret/print.hpp>
#include <tests/support/recorded.hpp>

namespace shardmark::test::recorded_plan_test {
namespace {

json plan_json(const Recording& r, int rank) {
  const Program p = build_program(r.deck, r.batch, r.world, rank, Profile{});
  require_legal(check(p));
  return json::parse(print_json(p, {}, "").dump());
}

// The start-up of a plan in the format of the recordings, which have no phases there, but byte
// views and barriers.
json startup(const json& raw) {
  json rows = json::array();
  for (json row : raw.at("startup")) {
    row.insert(row.begin(), "init");
    rows.push_back(row);
  }
  return in_shardmark_words(rows);
}

// Returns how many cases of the file were compared.
int compare_rows(const std::string& file) {
  int cases = 0;
  for (const Recording& r : recordings(file)) {
    ++cases;
    // Where parts differ in size, a recording is of the ranks with the same part.
    const int parts = r.raw.contains("rank") ? static_cast<int>(r.deck.zero.parallel.tensor) : 1;
    for (int rank = r.raw.value("rank", 0); rank < r.world; rank += parts) {
      SCOPED_TRACE(r.name + ", rank " + std::to_string(rank));
      const json plan = plan_json(r, rank);
      const json& steps = plan.at(overflows(r) ? "skipped" : "steps");
      auto same = [&](const json& have, const json& want) {
        const json named = by_first_name(as_recorded(have), r.raw);
        EXPECT_EQ(named, want) << first_difference(named, want);
      };
      same(steps.at("0"), expected_rows(r.raw, "first_step", rank));
      same(steps.at("steady"), expected_rows(r.raw, "steady_step", rank));
      if (r.raw.contains("startup")) same(plan.at("init"), startup(r.raw));
    }
  }
  return cases;
}

TEST(Recorded, CollectivesRowByRow) {
  EXPECT_GE(compare_rows("deepspeed_traces.json"), 26);  // two of them have offload
  EXPECT_GE(compare_rows("deepspeed_more_traces.json"), 20);
  EXPECT_GE(compare_rows("deepspeed_hpz.json"), 9);
  EXPECT_GE(compare_rows("deepspeed_details.json"), 20);
  EXPECT_GE(compare_rows("deepspeed_autocast.json"), 40);
  EXPECT_GE(compare_rows("deepspeed_muon_traces.json"), 72);
  EXPECT_GE(compare_rows("deepspeed_muon_stage3.json"), 29);
  EXPECT_GE(compare_rows("deepspeed_fp32_sums.json"), 89);
  EXPECT_GE(compare_rows("deepspeed_muon_knobs.json"), 107);
  EXPECT_GE(compare_rows("deepspeed_frozen.json"), 34);
  EXPECT_GE(compare_rows("deepspeed_axes.json"), 234);
}

// Tiny models of transformers, by their configs: dense ones and mixtures, with and without leaves.
TEST(Recorded, ModelsOfTransformers) {
  EXPECT_GE(compare_rows("deepspeed_models.json"), 87);
}

// Recordings of models with frozen weights and PEFT's LoRA factors, some of them with re-entrant or
// non-re-entrant activation checkpointing.
TEST(Recorded, AdaptersOfPeft) {
  EXPECT_GE(compare_rows("deepspeed_adapters.json"), 48);
}

// Returns how many cases of the file have figures of memory.
int compare_memory(const std::string& file) {
  const std::map<std::string, std::string> ours{
      {"exp_avg", "momentum"}, {"exp_avg_sq", "variance"}, {"bucket_buffers", "bucket"}};
  int cases = 0;
  for (const Recording& r : recordings(file)) {
    if (!r.raw.contains("bytes_by_rank")) continue;
    ++cases;
    for (int rank = 0; rank < r.world; ++rank) {
      SCOPED_TRACE(r.name + ", rank " + std::to_string(rank));
      json have = plan_json(r, rank).at("memory_at");
      for (json& kinds : have) kinds.erase("workspace");  // scalars, which were not recorded
      json want;
      for (const auto& [at, kinds] : r.raw.at("bytes_by_rank")[rank].items())
        for (const auto& [kind, bytes] : kinds.items())
          want[at][ours.contains(kind) ? ours.at(kind) : kind] = bytes;
      EXPECT_EQ(have, want);
    }
  }
  return cases;
}

TEST(Recorded, MemoryToTheByte) {
  EXPECT_GE(compare_memory("deepspeed_memory.json"), 11);
  EXPECT_GE(compare_memory("deepspeed_hpz.json"), 8);
  EXPECT_GE(compare_memory("deepspeed_details.json"), 20);
  EXPECT_GE(compare_memory("deepspeed_autocast.json"), 33);
  EXPECT_GE(compare_memory("deepspeed_muon_traces.json"), 72);
  EXPECT_GE(compare_memory("deepspeed_muon_stage3.json"), 29);
  EXPECT_GE(compare_memory("deepspeed_fp32_sums.json"), 89);
  EXPECT_GE(compare_memory("deepspeed_muon_knobs.json"), 77);
  EXPECT_GE(compare_memory("deepspeed_frozen.json"), 6);
  EXPECT_GE(compare_memory("deepspeed_models.json"), 74);
  EXPECT_GE(compare_memory("deepspeed_adapters.json"), 39);
  EXPECT_GE(compare_memory("deepspeed_axes.json"), 60);
}

// What a steady step reads from files and writes to them, on every rank.
TEST(Recorded, BytesOfFiles) {
  int cases = 0;
  for (const Recording& r : recordings("deepspeed_muon_knobs.json")) {
    if (!r.raw.contains("file_bytes_by_rank")) continue;
    ++cases;
    for (int rank = 0; rank < r.world; ++rank) {
      const LinkVolume have =
          steady_link_volume(build_program(r.deck, r.batch, r.world, rank, Profile{}));
      const json& want = r.raw.at("file_bytes_by_rank")[static_cast<std::size_t>(rank)];
      EXPECT_EQ(have[Direction::nvme_to_host].bytes, want.at("read")) << r.name << ", " << rank;
      EXPECT_EQ(have[Direction::host_to_nvme].bytes, want.at("write")) << r.name << ", " << rank;
    }
  }
  EXPECT_GE(cases, 28);
}

}  // namespace
}  // namespace shardmark::test::recorded_plan_test
