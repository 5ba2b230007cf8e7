// SPDX-License-Identifier: Apache-2.0
// `shardmark ckpt`, and files that other programs can read.
#include <cstring>
#include <filesystem>
#include <set>

#include <gtest/gtest.h>

#include <io/checkpoint/manifest.hpp>
#include <tests/support/program.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test::ckpt_command_test {
namespace {

class Ckpt : public ::testing::Test {
 protected:
  Ckpt() {
    place_.deck(3, {{"checkpoint", {{"dir", "ckpt"}, {"every", 2}}}, {"run", {{"steps", 4}}}});
    const Outcome o = run({.args = place_.run_args(), .ranks = 2});
    EXPECT_EQ(o.status, 0) << o.err;
  }
  std::string dir() const { return place_.path("ckpt"); }
  const Workplace place_;
};

void expect_has(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << "no '" << part << "' in: " << text;
}

TEST_F(Ckpt, InfoDescribesTheLatestOrTheNamedCheckpoint) {
  Outcome o = run({.args = {"ckpt", "info", dir()}});
  EXPECT_EQ(o.status, 0) << o.err;
  expect_has(o.out, {"step-00000004", "after step 4", "2 ranks", "stage 3", "rank-00001.h5",
                     "momentum (fp32)"});
  o = run({.args = {"ckpt", "info", dir() + "/step-00000002/"}});
  expect_has(o.out, {"after step 2"});
  o = run({.args = {"ckpt", "info", place_.out()}});
  EXPECT_EQ(o.status, 4);
  expect_has(o.err, {"contains no checkpoint", "manifest.json"});
}

TEST_F(Ckpt, InfoSaysWhatRanksDivided) {
  EXPECT_EQ(run({.args = {"ckpt", "info", dir()}}).out.find("divided by"), std::string::npos);
  place_.deck(1, {{"model",
                   {{"family", "decoder"},
                    {"kv_heads", 2},
                    {"ffn", 48},
                    {"moe", {{"experts", 4}, {"per_token", 2}, {"ffn", 24}}}}},
                  {"deepspeed", {{"expert_parallel", {{"enabled", true}, {"autoep_size", 2}}}}},
                  {"checkpoint", {{"dir", "divided"}, {"every", 2}}},
                  {"run", {{"steps", 2}}}});
  ASSERT_EQ(run({.args = place_.run_args(), .ranks = 2}).status, 0);
  expect_has(run({.args = {"ckpt", "info", place_.path("divided")}}).out,
             {"divided by expert_parallel.autoep_size = 2"});
}

// A manifest may list a great many files and parts, each of which is looked at once.
TEST_F(Ckpt, InfoTakesTimeInProportionToTheManifest) {
  const std::string folder = dir() + "/step-00000004";
  Manifest m = read_manifest(folder);
  constexpr int many = 120'000;
  for (int i = 0; i < many; ++i) m.files.push_back({"f" + std::to_string(i), 0, {}});
  for (int i = 0; i < many; ++i) {
    CheckpointPart nothing;
    nothing.file = static_cast<int>(m.files.size()) - 1;
    m.parts.push_back(nothing);
  }
  std::ofstream(folder + "/manifest.json") << write_manifest(m);
  const Outcome o = run({.args = {"ckpt", "info", folder},
                         .memory_limit_bytes = std::int64_t{1} << 30,
                         .cpu_limit_s = 10,
                         .stdout_path = place_.path("info")});
  EXPECT_EQ(o.status, 0) << o.err;
  expect_has(read_text(place_.path("info")), {"rank-00001.h5", "f119999"});
}

TEST_F(Ckpt, ConsolidateGivesTensorsByName) {
  const Outcome o = run({.args = {"ckpt", "consolidate", dir(), "--out", place_.path("one")}});
  EXPECT_EQ(o.status, 0) << o.err;
  const std::string text = read_text(place_.path("one/step-00000004.safetensors"));
  std::uint64_t length = 0;
  std::memcpy(&length, text.data(), 8);
  EXPECT_EQ((8 + length) % 64, 0U);
  const Json header = Json::parse(text.substr(8, length));
  EXPECT_EQ(header["block0.mlp.fc.weight"]["shape"], Json({128, 32}));
  EXPECT_EQ(header["block0.mlp.fc.weight"]["dtype"], "F32");
  // Norms start as ones and have changed a little; the file contains only tensors.
  const std::uint64_t at = header["ln_f.weight"]["data_offsets"][0];
  float value = 0;
  std::memcpy(&value, text.data() + 8 + length + at, 4);
  EXPECT_NEAR(value, 1.0f, 0.1f);
  EXPECT_NE(value, 1.0f);
  std::uint64_t end = 0;
  for (const auto& [name, tensor] : header.items())
    if (name != "__metadata__") end = std::max<std::uint64_t>(end, tensor["data_offsets"][1]);
  EXPECT_EQ(text.size(), 8 + length + end);
  EXPECT_EQ(std::filesystem::file_size(place_.path("one/step-00000004.h5")) > end, true);
}

// The tensors of a safetensors file, without its metadata.
std::set<std::string> tensors_in(const std::string& path) {
  const std::string text = read_text(path);
  std::uint64_t length = 0;
  std::memcpy(&length, text.data(), 8);
  const Json header = Json::parse(text.substr(8, length));
  std::set<std::string> names;
  for (const auto& item : header.items())
    if (item.key() != "__metadata__") names.insert(item.key());
  return names;
}

TEST_F(Ckpt, ConsolidateGivesAnAdapterAsPeftDoes) {
  place_.write("config.json", R"({"model_type": "deepseek_v3", "hidden_size": 24,
    "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 40, "vocab_size": 256,
    "q_lora_rank": 8, "kv_lora_rank": 8, "qk_nope_head_dim": 4, "qk_rope_head_dim": 4,
    "v_head_dim": 4, "first_k_dense_replace": 0, "n_routed_experts": 4, "num_experts_per_tok": 2,
    "moe_intermediate_size": 16, "n_group": 1, "topk_group": 1})");
  const Json peft = {{"peft_type", "LORA"},
                     {"r", 4},
                     {"lora_alpha", 6},
                     {"target_modules", {"q_b_proj"}},
                     {"rank_pattern", {{"q_b_proj", 2}}},
                     {"modules_to_save", {"mlp.gate", "norm"}}};
  place_.write("adapter.json", peft.dump());
  Json deck = Json::parse(read_text(
      place_.deck(2, {{"checkpoint", {{"dir", "lora"}, {"every", 2}}}, {"run", {{"steps", 2}}}})));
  deck["model"] = {{"config", "config.json"}, {"sequence", 12}, {"adapter", "adapter.json"}};
  place_.write("deck.json", deck.dump());
  Outcome o = run({.args = place_.run_args(), .ranks = 2});
  ASSERT_EQ(o.status, 0) << o.err;
  o = run({.args = {"ckpt", "consolidate", place_.path("lora"), "--out", place_.path("one")}});
  ASSERT_EQ(o.status, 0) << o.err;
  const std::string stem = place_.path("one/step-00000002"), folder = stem + ".adapter/";
  expect_has(o.out, {stem + ".h5\n", stem + ".safetensors\n",
                     folder + "adapter_model.safetensors\n", folder + "adapter_config.json\n"});
  const std::string base = "base_model.model.model.", q = base + "layers.0.self_attn.q_b_proj.";
  std::set<std::string> want{q + "lora_A.weight", q + "lora_B.weight", base + "norm.weight",
                             base + "layers.0.mlp.gate.weight",
                             base + "layers.0.mlp.gate.e_score_correction_bias"};
  for (const char* norm : {"input_layernorm", "post_attention_layernorm", "self_attn.q_a_layernorm",
                           "self_attn.kv_a_layernorm"})
    want.insert(base + "layers.0." + norm + ".weight");
  EXPECT_EQ(tensors_in(folder + "adapter_model.safetensors"), want);
  EXPECT_TRUE(tensors_in(stem + ".safetensors").contains(q + "lora_A.default.weight"));
  const Json written = Json::parse(read_text(folder + "adapter_config.json"));
  for (const auto& [key, value] : peft.items()) EXPECT_EQ(written.at(key), value) << key;
  // An export of the model itself has the routers' corrections, which transformers expects.
  deck["model"]["adapter"] = "none";
  deck["checkpoint"]["dir"] = "whole";
  place_.write("deck.json", deck.dump());
  ASSERT_EQ(run({.args = place_.run_args(), .ranks = 2}).status, 0);
  o = run({.args = {"ckpt", "consolidate", place_.path("whole"), "--out", place_.path("two")}});
  const auto all = tensors_in(place_.path("two/step-00000002.safetensors"));
  EXPECT_TRUE(all.contains("model.layers.0.mlp.gate.e_score_correction_bias")) << o.err;
  EXPECT_FALSE(std::filesystem::exists(place_.path("two/step-00000002.adapter")));
}

// With 720 MB of states, the memory that the system counts beyond the ledger stays within the
// allowance while they are read; otherwise the run is INVALID.
TEST(CkptFull, ARestartKeepsItsStatesAndLittleMore) {
  const Workplace place;
  const Json patch = {
      {"model", {{"family", "list"}, {"modules", Json::array({{{"name", "a"}}, {{"name", "b"}}})}}},
      {"run", {{"compute", "none"}, {"steps", 1}}},
      {"checkpoint", {{"dir", "ckpt"}, {"every", 1}, {"resume", "latest"}}},
      {"memory", {{"device_gib", 2}, {"host_gib", 2}, {"allowance_mib", 256}}}};
  const auto run_with = [&](int stage, int ranks, int steps) {
    Json deck = Json::parse(read_text(place.deck(stage, patch)));
    deck["model"] = patch["model"];
    deck["model"]["modules"][0]["numels"] = {31'000'000};
    deck["model"]["modules"][1]["numels"] = {29'000'001, 7};
    deck["deepspeed"]["zero_optimization"]["reduce_bucket_size"] = 4'000'000;
    place.write("deck.json", deck.dump());
    const Outcome o = run(
        {.args = place.run_args({"--set", "run.steps=" + std::to_string(steps)}), .ranks = ranks});
    EXPECT_EQ(o.status, 0) << o.out << o.err;
    EXPECT_NE(o.out.find("\nRESULT=VALID\n"), std::string::npos);
  };
  run_with(1, 2, 1);
  run_with(2, 3, 2);
  run_with(0, 1, 3);
  run_with(3, 2, 4);
}

}  // namespace
}  // namespace shardmark::test::ckpt_command_test
