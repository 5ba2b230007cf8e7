// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <tests/campaign/random_deck.hpp>

namespace shardmark::test {
namespace {

Json recorded(const std::string& name) {
  return Json::parse(read_text(std::string(SHARDMARK_TESTS) + "/data/" + name)).at("cases");
}

}  // namespace

RandomDecks::RandomDecks(Campaign& campaign) : c_(campaign) {
  for (const Json& c : recorded("hf_models.json")) configs_.push_back(c.at("config"));
  for (const Json& c : recorded("hf_adapters.json"))
    adapters_.push_back({{"config", c.at("config")}, {"adapter", c.at("adapter")}});
}

std::int64_t RandomDecks::log_uniform(std::int64_t most) {
  std::int64_t bound = most;
  for (std::int64_t halvings = c_.random(40); halvings > 0 && bound > 1; --halvings) bound /= 2;
  return 1 + c_.random(bound);
}

RandomDeck RandomDecks::draw() {
  drawn_ = {};
  drawn_.ranks = power_of_2(15);
  smaller_ = chance(4) ? 1 : 16;
  schedule_ = word({"deepspeed", "deepspeed", "deepspeed", "paper", "torch"});
  mixture_ = false;
  // Axes are modelled under one schedule, for models that compute.
  divided_ = schedule_ == "deepspeed" && chance(3);
  Json run = {{"steps", 1}, {"compute", divided_ ? "train" : "none"}, {"schedule", schedule_}};
  if (chance(4)) run["activation_checkpointing"] = true;
  if (schedule_ == "paper" && chance(3)) run["shard_size"] = power_of_2(6);
  if (chance(4)) run["reductions"] = "ordered";
  if (chance(3)) run["memory_mode"] = "strict";
  const std::int64_t stage = c_.random(4);
  drawn_.deck = {
      {"name", "random"}, {"model", model()}, {"deepspeed", deepspeed(stage)}, {"run", run}};
  if (schedule_ == "torch") drawn_.deck["torch"] = torch();
  if (chance(8)) drawn_.deck["machine"]["ranks_per_node"] = power_of_2(5);
  return drawn_;
}

Json RandomDecks::model() {
  switch (c_.random(divided_ ? 3 : 4)) {
    case 0: return sizes();
    case 1: return description();
    case 2: return from_config();
    default: return list();
  }
}

Json RandomDecks::list() {
  has(DeckPart::list);
  Json modules = Json::array();
  const std::int64_t count = log_uniform(8000 / smaller_);
  for (std::int64_t m = 0; m < count; ++m) {
    Json numels = Json::array();
    for (std::int64_t p = c_.random(3); p > 0; --p) numels.push_back(log_uniform(1 << 24));
    modules.push_back({{"name", "m" + std::to_string(m)}, {"numels", numels}});
  }
  modules.push_back({{"name", "last"}, {"numels", {log_uniform(1 << 20)}}});
  return {{"family", "list"}, {"modules", modules}};
}

Json RandomDecks::sizes() {
  has(DeckPart::sizes);
  const bool gpt2 = chance(divided_ ? 6 : 2);
  const std::int64_t heads = power_of_2(7);
  Json model = {{"family", gpt2 ? "gpt2" : "llama"},
                {"layers", log_uniform((gpt2 ? 1365 : 1820) / smaller_)},
                {"hidden", heads * 2 * log_uniform(128)},
                {"heads", heads},
                {"sequence", log_uniform(131072)},
                {"vocab", 256 + log_uniform(200000)}};
  if (divided_) {  // sizes that ranks can divide, as those of real models
    model["sequence"] = 32 * log_uniform(4096);
    model["vocab"] = 64 * log_uniform(4000);
    if (chance(3) && !gpt2) model["kv_heads"] = std::max<std::int64_t>(1, heads / power_of_2(4));
  }
  if (!gpt2) model["ffn"] = divided_ ? 32 * log_uniform(1024) : log_uniform(65536);
  if (chance(divided_ ? 12 : 3)) model["tied_head"] = true;
  if (!gpt2) maybe(model, "qkv_bias", chance(2));
  return model;
}

Json RandomDecks::described_attention() {
  Json a = Json::object();
  if (chance(4)) a["head_dim"] = 2 * log_uniform(256);
  if (chance(4)) a["qkv"] = one("joined", "grouped");
  maybe(a, "qkv_bias", chance(2));
  maybe(a, "bias", chance(2));
  if (chance(4)) {
    a["window"] = log_uniform(8192);
    a["windowed"] = {true, chance(2), false};
  }
  if (chance(6)) a["softcap"] = 50;
  if (chance(6)) a["sinks"] = true;
  if (chance(10))
    a["latent"] = {{"q_rank", chance(3) ? 0 : log_uniform(2048)},
                   {"kv_rank", log_uniform(1024)},
                   {"plain_dim", 2 * log_uniform(128)},
                   {"rotary_dim", 2 * log_uniform(64)},
                   {"value_dim", log_uniform(256)}};
  return a;
}

Json RandomDecks::experts() {
  has(DeckPart::experts);
  mixture_ = true;
  const std::int64_t count = divided_ ? 8 * power_of_2(6) : power_of_2(9);
  Json moe = {{"experts", count},
              {"per_token", std::min(count, 1 + c_.random(8))},
              {"ffn", log_uniform(8192)}};
  maybe(moe, "normalised", chance(2));
  if (chance(4)) moe["shared_ffn"] = log_uniform(8192);
  if (divided_) return moe;
  if (chance(4)) moe["layers"] = {false, true};
  if (chance(6)) moe["bias"] = true;
  if (chance(6)) moe["balance_loss"] = 0.01;
  if (chance(6)) {
    moe["scores"] = "sigmoid";
    moe["groups"] = std::max<std::int64_t>(1, count / 4);
    moe["token_groups"] = std::max<std::int64_t>(1, count / 8);
    moe["per_token"] = 1;
  }
  if (chance(8)) moe["shared_factor"] = false;
  return moe;
}

Json RandomDecks::adapter() {
  has(DeckPart::adapter);
  Json a = {{"rank", log_uniform(1024)}, {"bias", word({"none", "adapted", "all"})}};
  if (chance(2))
    a["targets"] = "all-linear";
  else
    a["targets"] = {"q", "v", one("up", "attn_proj")};
  if (chance(4)) a["layers"] = {0};
  return a;
}

Json RandomDecks::description() {
  has(DeckPart::description);
  const std::int64_t heads = power_of_2(7);
  Json model = {{"family", "decoder"},
                {"layers", log_uniform(512 / smaller_)},
                {"hidden", heads * 2 * log_uniform(128)},
                {"heads", heads},
                {"ffn", 8 * log_uniform(4096)},
                {"sequence", divided_ ? 32 * log_uniform(4096) : log_uniform(131072)},
                {"vocab", 64 * log_uniform(4000)}};
  if (chance(2)) model["kv_heads"] = std::max<std::int64_t>(1, heads / power_of_2(4));
  if (chance(divided_ ? 2 : 3)) model["moe"] = experts();
  if (mixture_) model["routing"] = one("balanced", "learned");
  if (mixture_ && chance(4)) model["expert_room"] = 1 + c_.random(4);
  if (divided_ && !chance(5)) return model;  // only plain blocks can be divided
  if (!mixture_ && chance(3)) model["like"] = "gpt2";
  if (chance(3)) model["tied_head"] = true;
  if (!mixture_ && chance(6)) model["in_out"] = true;
  model["attention"] = described_attention();
  if (chance(3))
    model["norm"] = {{"kind", one("rms", "layer")},
                     {"place", word({"before", "before", "after", "both"})},
                     {"of_q_and_k", word({"none", "none", "head", "all"})}};
  if (chance(3))
    model["positions"] = {{"kind", word({"none", "learned", "rotary", "alibi"})},
                          {"part", chance(2) ? 1 : 0.5}};
  if (chance(6))
    model["block"] = {{"kind", word({"sequential", "parallel", "parallel_two_norms"})}};
  if (chance(3))
    model["mlp"] = {{"activation", word({"gelu_tanh", "gelu", "relu", "silu"})},
                    {"gated", mixture_ || chance(2)},
                    {"joined", mixture_ && chance(2)},
                    {"bias", chance(2)}};
  if (chance(5)) model["ends"] = {{"embedding_norm", chance(2)}, {"head_bias", chance(2)}};
  if (schedule_ == "deepspeed" && chance(3)) model["adapter"] = adapter();
  return model;
}

// Layers and vocabulary stay so small that a plan of any schedule is possible. The key of the
// number of layers differs from type to type.
Json RandomDecks::from_config() {
  has(DeckPart::config);
  Json model = {{"config", "config.json"}, {"sequence", 1 + c_.random(16)}};
  if (!divided_ && schedule_ == "deepspeed" && chance(2)) {
    const Json& both = c_.one_of(adapters_);
    has(DeckPart::adapter);
    drawn_.config = both.at("config");
    model["adapter"] = both.at("adapter").contains("r")
                           ? Json{{"rank", both.at("adapter").at("r")}, {"targets", "all-linear"}}
                           : adapter();
  } else {
    drawn_.config = c_.one_of(configs_);
  }
  for (const char* key : {"num_hidden_layers", "n_layer", "num_layers"})
    if (drawn_.config.contains(key) && chance(2)) drawn_.config[key] = log_uniform(256 / smaller_);
  if (drawn_.config.contains("vocab_size") && chance(2))
    drawn_.config["vocab_size"] = 64 + log_uniform(200000);
  for (const char* key : {"num_experts", "num_local_experts", "n_routed_experts"})
    if (drawn_.config.contains(key)) {
      has(DeckPart::experts);
      mixture_ = true;
    }
  if (mixture_ && chance(2)) model["routing"] = "balanced";
  return model;
}

void RandomDecks::zeropp(Json& zero) {
  has(DeckPart::zeropp);
  if (chance(2)) zero["zero_hpz_partition_size"] = power_of_2(5);
  if (chance(2)) zero["zero_quantized_weights"] = true;
  if (chance(2)) zero["zero_quantized_gradients"] = true;
  if (chance(2)) zero["stage3_param_persistence_threshold"] = 0;
}

void RandomDecks::offload(Json& zero, std::int64_t stage) {
  const bool files = stage == 3 && chance(4);
  Json where = {{"device", "cpu"}};
  if (files) where = {{"device", "nvme"}, {"nvme_path", "/tmp"}};
  if (chance(2)) zero["offload_optimizer"] = where;
  if (stage == 3 && chance(2)) {
    zero["offload_param"] = where;
    if (files) zero["offload_param"]["buffer_size"] = log_uniform(1'000'000'000);
  }
}

Json RandomDecks::optimizer() {
  if (!divided_ && schedule_ == "deepspeed" && !mixture_ && chance(2)) {
    has(DeckPart::muon);
    Json muon = {{"type", "Muon"}, {"params", Json::object()}};
    maybe(muon["params"], "ns_method", one("gram", "standard"));
    return muon;
  }
  Json o = {{"type", word({"Adam", "AdamW", "Lion", "SGD", "Adagrad"})},
            {"params", {{"lr", 1e-3}}}};
  if (o["type"] == "SGD") maybe(o["params"], "momentum", 0.9);
  if (o["type"] == "Adam" || o["type"] == "AdamW") maybe(o["params"], "torch_adam", chance(2));
  return o;
}

// Ranks divide the experts of a mixture and perhaps what is around them, and the layers or samples
// of other models.
void RandomDecks::axes(Json& config, std::int64_t stage) {
  const auto degree = [&](std::int64_t exponents) {
    return std::min(drawn_.ranks, power_of_2(exponents));
  };
  const bool samples = !mixture_ && chance(2);
  if (samples) {
    has(DeckPart::sequence);
    config["sequence_parallel_size"] = degree(5);
  } else if (!mixture_ || chance(3)) {
    has(DeckPart::tensor);
    config["tensor_parallel"] = {{"autotp_size", degree(4)}};
    if (mixture_) config["tensor_parallel"]["preset_model"] = "mixtral";
  }
  if (!mixture_) return;
  has(DeckPart::expert);
  drawn_.ranks = std::max<std::int64_t>(drawn_.ranks, 2);
  config["expert_parallel"] = {{"enabled", true},
                               {"autoep_size", std::max<std::int64_t>(2, degree(5))}};
  if (chance(4)) config["use_data_before_expert_parallelism"] = true;
  if (stage == 0 && chance(2)) config["gradient_clipping"] = 0;
}

Json RandomDecks::deepspeed(std::int64_t stage) {
  Json zero = {{"stage", stage}};
  maybe(zero, "reduce_bucket_size", log_uniform(1'000'000'000));
  maybe(zero, "allgather_bucket_size", 2 * log_uniform(500'000'000));
  maybe(zero, "stage3_prefetch_bucket_size", log_uniform(1'000'000'000));
  maybe(zero, "stage3_max_live_parameters", log_uniform(1'000'000'000));
  maybe(zero, "stage3_max_reuse_distance", log_uniform(1'000'000'000));
  maybe(zero, "stage3_param_persistence_threshold", log_uniform(1'000'000));
  maybe(zero, "sub_group_size", log_uniform(1'000'000'000));
  maybe(zero, "overlap_comm", chance(2));
  if (!mixture_) maybe(zero, "contiguous_gradients", chance(2));
  if (!mixture_) maybe(zero, "reduce_scatter", chance(2));
  maybe(zero, "round_robin_gradients", chance(2));
  const bool full = schedule_ == "deepspeed" || chance(20);  // what other schedules lack
  if (full && stage == 3 && !divided_ && chance(3)) zeropp(zero);
  if (full && stage > 0 && chance(3)) offload(zero, stage);
  Json config = {{"train_micro_batch_size_per_gpu", log_uniform(64)}};
  if (chance(2)) config["gradient_accumulation_steps"] = log_uniform(1 << 20);
  const bool autocast = full && !divided_ && chance(8);
  if (autocast && !chance(8))
    config["torch_autocast"] = {{"enabled", true}, {"dtype", "bfloat16"}};
  else if (chance(3) && (schedule_ != "torch" || stage >= 2))
    config["bf16"] = {{"enabled", true}};
  else if (chance(3) && schedule_ != "torch")
    config["fp16"] = {{"enabled", true}};
  const bool scales = schedule_ == "deepspeed" && (stage == 0 || chance(8));
  if (scales && chance(3)) config["prescale_gradients"] = true;
  if (scales && chance(3)) config["gradient_predivide_factor"] = 2;
  if (chance(3)) config["optimizer"] = optimizer();
  if (chance(2)) config["zero_allow_untested_optimizer"] = true;
  // Stage 2 takes Muon only so.
  if (config.contains("optimizer") && config["optimizer"]["type"] == "Muon" && stage < 3)
    zero["reduce_scatter"] = false;
  config["zero_optimization"] = zero;
  if (stage == 1 && config.contains("bf16") && chance(2))
    config["data_types"] = {{"grad_accum_dtype", "fp32"}};
  if (divided_) axes(config, stage);
  return config;
}

Json RandomDecks::torch() {
  has(DeckPart::torch);
  Json t = Json::object();
  if (chance(4))
    t["reshard_after_forward"] =
        chance(2) ? Json(chance(2)) : Json(std::min(drawn_.ranks, power_of_2(6)));
  if (chance(4)) {
    const std::int64_t shard = std::min(drawn_.ranks, power_of_2(8));
    t["mesh"] = chance(2) ? Json{drawn_.ranks / shard, shard} : Json{drawn_.ranks};
  }
  if (chance(4)) t["mp_policy"]["reduce_dtype"] = word({"fp32", "bf16", "fp16"});
  if (chance(5)) t["offload_policy"] = {{"pin_memory", chance(2)}};
  if (chance(4)) t["set_modules_to_forward_prefetch"] = log_uniform(100);
  if (chance(4)) t["set_modules_to_backward_prefetch"] = log_uniform(100);
  maybe(t, "set_requires_gradient_sync", chance(2));
  maybe(t, "set_requires_all_reduce", chance(2));
  maybe(t, "set_reshard_after_backward", chance(2));
  maybe(t, "set_reduce_scatter_max_input_buffers", log_uniform(100));
  maybe(t, "set_force_sum_reduction_for_comms", chance(2));
  maybe(t, "bucket_cap_mb", log_uniform(1000));
  maybe(t, "find_unused_parameters", chance(2));
  maybe(t, "static_graph", chance(2));
  maybe(t, "gradient_as_bucket_view", chance(2));
  maybe(t, "no_sync", chance(2));
  maybe(t, "parameters_as_bucket_view", chance(2));
  if (chance(6)) t["fully_shard"] = {""};
  return t;
}

}  // namespace shardmark::test
