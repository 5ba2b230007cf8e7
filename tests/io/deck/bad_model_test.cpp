// SPDX-License-Identifier: Apache-2.0
// Rule: a model that cannot be built is refused with the key that says so.
#include <fmt/core.h>

#include <tests/support/io_scratch.hpp>

namespace shardmark::test::bad_model_test {
namespace {

TEST(BadModel, heads_of_a_llama_must_fit) {
  const ScratchFolder folder;
  const std::string path = folder.write("d.json", good_deck);
  const auto read = [&](std::vector<std::string> sets) {
    sets.insert(sets.begin(), {"model.family=llama", "model.ffn=64"});
    return load_deck(path, sets);
  };
  EXPECT_EQ(read({}).model.kv_heads, 4) << "as many as heads";
  EXPECT_EQ(read({"model.kv_heads=2"}).model.kv_heads, 2);
  const auto refused = [&](const char* set) { return message_of<DeckError>([&] { read({set}); }); };
  expect_says(refused("model.kv_heads=3"), {"kv_heads = 3", "must divide model.heads = 4"});
  expect_says(refused("model.kv_heads=8"), {"kv_heads = 8", "from 1 to 4"});
  expect_says(refused("model.heads=32"), {"heads = 32", "even"});
  EXPECT_FALSE(read({}).model.qkv_bias);
  EXPECT_TRUE(read({"model.qkv_bias=true"}).model.qkv_bias);
  expect_says(refused("model.qkv_bias=1"), {"qkv_bias = 1", "must be true or false"});
  expect_says(message_of<DeckError>([&] { load_deck(path, {"model.ffn=64"}); }),
              {"model.ffn = 64", "unknown key"});
  expect_says(message_of<DeckError>([&] { load_deck(path, {"model.qkv_bias=true"}); }),
              {"model.qkv_bias = true", "unknown key"});
}

TEST(BadModel, a_description_must_fit_together) {
  const ScratchFolder folder;
  const std::string path = folder.write("d.json", good_deck);
  const auto read = [&](std::vector<std::string> sets) {
    sets.insert(sets.begin(), {"model.family=decoder", "model.ffn=64"});
    return load_deck(path, sets).model;
  };
  EXPECT_EQ(read({}).decoder->modules.size(), 12) << "the names of a Llama";
  EXPECT_EQ(read({"model.attention.head_dim=10"}).decoder->attention.head_dim, 10);
  EXPECT_EQ(read({"model.attention.sinks=true"}).decoder->modules.size(), 13);
  EXPECT_EQ(read({"model.like=gpt2"}).decoder->norm.kind, NormKind::layer);
  const struct {
    std::vector<std::string> sets, says;
  } cases[] = {
      {{"model.norm.plaec=after"}, {"model.norm.plaec", "did you mean \"place\""}},
      {{"model.norm.place=above"}, {"norm.place = \"above\"", "before"}},
      {{"model.kv_heads=3"}, {"kv_heads = 3", "must divide model.heads = 4"}},
      {{"model.positions.part=0.1"}, {"positions.part = 0.1", "rotates 0 of the 8"}},
      {{"model.like=gpt2", "model.positions.rows=9", "model.positions.offset=2"},
       {"positions.rows = 9", "model.sequence + positions.offset = 16 + 2", "at most 7"}},
      {{"model.positions.scaling.kind=yarn"}, {"original_positions", "missing"}},
      {{"model.norm.of_q_and_k=head", "model.attention.qkv=joined"}, {"norm.of_q_and_k"}},
      {{"model.block.kind=parallel", "model.norm.place=both"}, {"norm.place", "parallel"}},
      {{"model.mlp.gated=false", "model.mlp.joined=true"}, {"mlp.joined"}},
      {{"model.moe.per_token=2"}, {"moe.experts", "missing"}},
      {{"model.moe.experts=4", "model.moe.per_token=5"}, {"per_token = 5", "experts = 4"}},
      {{"model.moe.experts=4", "model.in_out=true"}, {"moe.experts", "in_out false"}},
      {{"model.moe.experts=4", "model.routing=random"}, {"routing", "balanced"}},
      {{"model.moe.experts=4", "model.moe.gate.limit=-1"}, {"moe.gate.limit = -1"}},
      {{"model.attention.windowed=[1]"}, {"windowed", "true and false"}},
      {{R"(model.modules=[["e", "token_embedding"]])"}, {"modules", "norm1", "0 times"}},
      {{R"(model.modules=[["e", "embedding"]])"}, {"modules", "token_embedding, norm1"}},
  };
  for (const auto& c : cases)
    expect_says(message_of<DeckError>([&] { read(c.sets); }), {c.says.begin(), c.says.end()});
}

// Its parameter is that of the module around attention, so it is gathered before those inside.
TEST(BadModel, the_module_of_sinks_is_around_attention) {
  const ScratchFolder folder;
  const std::string path = folder.write("d.json", good_deck);
  std::vector<std::string> sets{"model.family=decoder", "model.ffn=64",
                                "model.attention.sinks=true"};
  const Decoder d = *load_deck(path, sets).model.decoder;
  const auto load = [&](Role moved, const std::string& name) {
    nlohmann::json modules = nlohmann::json::array();
    for (const DecoderModule& m : d.modules)
      modules.push_back({m.role == moved ? name : m.name, to_string(m.role)});
    std::vector<std::string> all = sets;
    all.push_back("model.modules=" + modules.dump());
    return load_deck(path, all).model.decoder->modules.size();
  };
  EXPECT_EQ(load(Role::q, "layers.*.self_attn.query"), 13);
  for (const auto& [role, name] :
       {std::pair{Role::sinks, "layers.*.sinks"}, std::pair{Role::attn_proj, "layers.*.o"},
        std::pair{Role::norm1, "layers.*.self_attn.norm"}})
    expect_says(message_of<DeckError>([&] { load(role, name); }), {"around that of attn_proj"});
}

// A module without parameters is listed for each of its calls, after the module that it lies in.
TEST(BadModel, modules_without_parameters_have_names_of_their_own) {
  const ScratchFolder folder;
  const std::string path = folder.write("d.json", good_deck);
  const std::vector<std::string> sets{"model.family=decoder", "model.ffn=64"};
  const Decoder d = *load_deck(path, sets).model.decoder;
  const auto load = [&](const std::vector<std::vector<std::string>>& more, bool first = false) {
    nlohmann::json modules = nlohmann::json::array();
    for (const DecoderModule& m : d.modules)
      modules.push_back({m.name, std::string(to_string(m.role))});
    for (const auto& m : more) modules.insert(first ? modules.begin() : modules.end(), m);
    std::vector<std::string> all = sets;
    all.push_back("model.modules=" + modules.dump());
    return *load_deck(path, all).model.decoder;
  };
  const Decoder twice =
      load({{"angles", "constant", "token_embedding"}, {"angles", "constant", "token_embedding"}});
  EXPECT_EQ(twice.modules.size(), 14);
  EXPECT_EQ(twice.modules.back().bare, Bare::constant);
  EXPECT_EQ(twice.modules.back().after, Role::token_embedding);
  const std::string norm = "layers.*.norm1";
  const struct {
    std::vector<std::vector<std::string>> more;
    bool first;
    const char* says;
  } cases[] = {
      {{{"act", "constantly", "token_embedding"}}, false, "function, identity or constant"},
      {{{"act", "none", "token_embedding"}}, false, "function, identity or constant"},
      {{{"act", "function", "fc"}}, false, "the role is one that the description has"},
      {{{"act", "function", "gate"}}, false, "exists in each layer"},
      {{{norm, "function", "gate"}}, false, "a name of its own"},
      {{{"layers.*.mlp", "identity", "gate"}}, false, "one around others must be a function"},
      {{{"layers.*.mlp", "function", "gate"}, {"layers.*.mlp", "function", "gate"}},
       false,
       "one around others must be a function and be listed once"},
      {{{norm + ".act", "function", "gate"}}, true, "come after the module"},
      {{{"a", "constant", "token_embedding"}, {"a", "function", "token_embedding"}},
       false,
       "one kind"},
  };
  for (const auto& c : cases)
    expect_says(message_of<DeckError>([&] { load(c.more, c.first); }), {"model.modules", c.says});
}

TEST(BadModel, a_part_of_the_budget_takes_the_place_of_layers) {
  const ScratchFolder folder;
  const std::string head = R"({"run": {"steps": 1, "compute": "none"},
      "deepspeed": {"train_batch_size": 2}, "model": {"family": "gpt2", "hidden": 8, "heads": 2, "sequence": 4, "vocab": 256, )";
  const auto write = [&](const std::string& keys, const std::string& memory) {
    return folder.write("f.json", head + keys + R"(}, "memory": )" + memory + "}");
  };
  const std::string budget = R"({"device_gib": 1})";
  const Deck deck = read_deck(write(R"("fit": 0.8)", budget), {}, DeckUse::plan).deck;
  EXPECT_EQ(deck.model.fit, 0.8);
  EXPECT_EQ(deck.model.layers, 0) << "not known yet";
  EXPECT_NO_THROW(read_deck(write(R"("fit": 1)", "{}"), {}, DeckUse::run));
  const auto refused = [&](const std::string& keys, const std::string& memory) {
    return message_of<DeckError>([&] { read_deck(write(keys, memory), {}, DeckUse::plan); });
  };
  expect_says(refused(R"("fit": 0)", budget), {"model.fit = 0", "above 0", "1"});
  expect_says(refused(R"("fit": 1.01)", budget), {"model.fit = 1.01", "1"});
  expect_says(refused(R"("fit": "most")", budget), {"model.fit = \"most\"", "number"});
  expect_says(refused(R"("fit": 0.5, "layers": 3)", budget), {"model.layers = 3", "model.fit"});
  expect_says(refused(R"("fit": 0.5)", "{}"), {"model.fit = 0.5", "memory.device_gib"});
  expect_says(refused("\"tied_head\": false", budget), {"model.layers", "missing"});
}

TEST(BadModel, bad_list_models) {
  const ScratchFolder folder;
  const std::string head =
      R"({"run": {"steps": 1, "compute": "none"}, "deepspeed": {"train_batch_size": 2},
      "model": {"family": "list", "modules": )";
  const struct {
    const char* model;
    std::vector<std::string> says;
  } cases[] = {
      {"3", {"model.modules", "= 3", "array"}},
      {"[]", {"model.modules", "array of 1"}},
      {R"([{"name": "a", "numels": []}])", {"no module has parameters"}},
      {R"([{"numels": [1]}])", {"model.modules.0.name", "missing"}},
      {R"([{"name": "a"}])", {"model.modules.0.numels", "missing"}},
      {R"([{"name": "a", "numels": [0]}])", {"model.modules.0.numels.0 = 0", "from 1"}},
      {R"([{"name": "a", "numels": [1], "class": 3}])", {"model.modules.0.class = 3", "torch.nn"}},
      {R"([{"name": "a", "numels": [1], "numel": 2}])", {"did you mean \"numels\""}},
      {R"([{"name": "a", "numels": [1]}, {"name": "a", "numels": [2]}])",
       {"modules.1.name", "differ"}},
      {R"([{"name": "a", "numels": [1]}], "tied": [["b", "a"]])", {"tied.0", "no module", "\"b\""}},
      {R"([{"name": "a", "numels": [1]}, {"name": "b", "numels": [2]}], "tied": [["b", "a"]])",
       {"same numels"}},
      {R"([{"name": "a", "numels": [1]}, {"name": "b", "numels": [1]}], "tied": [["a", "b"]])",
       {"owner must be listed before"}},
      {R"([{"name": "a", "numels": [1]}], "visits": ["g+a"])", {"visits.0", "\"g+a\"", "f+"}},
      {R"([{"name": "a", "numels": [1]}], "visits": ["f+b"])", {"visits.0", "no module"}},
      {R"([{"name": "a", "numels": [1, 2]}], "gradient_ready_order": [1, 1])", {"twice"}},
      {R"([{"name": "a", "numels": [1, 2]}], "gradient_ready_order": [])", {"not be empty"}},
      {R"([{"name": "a", "numels": [1, 2]}], "param_groups": [[1]])", {"1 of 2"}},
      {R"([{"name": "a", "numels": [1, 2]}], "frozen": [2])", {"frozen = 2", "from 0 to 1"}},
      {R"([{"name": "a", "numels": [1, 2]}], "frozen": [0, 0])", {"twice"}},
      {R"([{"name": "a", "numels": [1, 2]}], "frozen": [0, 1])", {"all parameters are frozen"}},
      {R"([{"name": "a", "numels": [1, 2]}], "frozen": [0], "gradient_ready_order": [0, 1])",
       {"gradient_ready_order = 0", "frozen"}},
      {R"([{"name": "a", "numels": [1, 2]}], "frozen": [0], "param_groups": [[0], [1]])",
       {"param_groups.0", "frozen"}},
      {R"([{"name": "a", "numels": [1, 2]}], "param_groups": [[0], [2]])", {"= 2", "from 0 to 1"}},
      {R"([{"name": "a", "numels": [1, 2]}], "param_groups": [[0, 1], []])", {"not be empty"}},
      {R"([{"name": "a", "numels": [1]}], "visits": ["f+a", "f-a"])",
       {"visits", "\"a\" has parameters", "no \"b+a\""}},
      {R"([{"name": "a", "numels": [1]}], "visits": ["b+a", "f+a"])",
       {"visits", "no \"f+a\" before the first \"b+\""}},
      {R"([{"name": "a", "numels": [1, 2]}], "visits": [])", {"visits = []", "array of visits"}},
      {R"([{"name": "a", "numels": [1152921504606846976, 1152921504606846976]}])", {"63 bits"}},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.model);
    const std::string path = folder.write("l.json", head + c.model + "}}");
    expect_says(message_of<DeckError>([&] { load_deck(path, {}); }), c.says);
  }
}

// The bound itself is accepted, and one tensor more is refused before a plan is made.
TEST(BadModel, a_model_has_at_most_16384_parameter_tensors) {
  const ScratchFolder folder;
  const std::string path = folder.write("d.json", good_deck);
  const std::vector<std::string> llama{"model.family=llama", "model.ffn=64"};
  const struct {
    std::vector<std::string> sets;
    std::int64_t layers;  // the first number of layers that gives more, which is 16 385 tensors
  } cases[] = {{{}, 1365}, {llama, 1820}};
  for (const auto& c : cases) {
    const auto read = [&](std::int64_t layers) {
      auto sets = c.sets;
      sets.push_back(fmt::format("model.layers={}", layers));
      return load_deck(path, sets);
    };
    EXPECT_EQ(read(c.layers - 1).model.layers, c.layers - 1);
    expect_says(message_of<DeckError>([&] { read(c.layers); }),
                {fmt::format("model.layers = {}: gives 16385 parameter tensors", c.layers),
                 "at most 16384", "fewer layers"});
  }
  const auto read_list = [&](int tensors) {
    std::string numels = "1";
    for (int i = 1; i < tensors; ++i) numels += ", 1";
    return load_deck(folder.write("l.json", fmt::format(R"({{
        "run": {{"steps": 1, "compute": "none"}}, "deepspeed": {{"train_batch_size": 2}},
        "model": {{"family": "list", "modules": [{{"name": "a", "numels": [{}]}}]}}}})",
                                                        numels)),
                     {});
  };
  EXPECT_EQ(read_list(16384).model.modules[0].numels.size(), 16384U);
  expect_says(
      message_of<DeckError>([&] { read_list(16385); }),
      {"model.modules = 1: gives 16385 parameter tensors", "at most 16384", "fewer modules"});
}

// Only DeepSpeed's schedule models parameters without gradients.
TEST(BadModel, the_schedule_paper_trains_every_parameter) {
  const ScratchFolder folder;
  for (const char* key : {"\"frozen\": [0]", "\"gradient_ready_order\": [1]"}) {
    const std::string path = folder.write(
        "l.json", std::string(R"({"run": {"steps": 1, "compute": "none", "schedule": "paper"},
        "deepspeed": {"train_batch_size": 2}, "model": {"family": "list",
        "modules": [{"name": "a", "numels": [1, 2]}], )") +
                      key + "}}");
    expect_says(message_of<DeckError>([&] { load_deck(path, {}); }), {"deepspeed"});
  }
}

// Autocast treats modules by their classes, except at stage 0; containers have no parameters.
TEST(BadModel, autocast_asks_for_the_classes_of_modules_with_parameters) {
  const ScratchFolder folder;
  const auto write = [&](const char* stage, const char* python_class) {
    return folder.write("l.json", fmt::format(R"({{"run": {{"steps": 1, "compute": "none"}},
      "deepspeed": {{"train_batch_size": 2, "zero_optimization": {{"stage": {}}},
                     "torch_autocast": {{"enabled": true, "dtype": "bf16"}}}},
      "model": {{"family": "list", "modules": [{{"name": "h", "numels": []}},
                                               {{"name": "h.a", "numels": [3]{}}}]}}}})",
                                              stage, python_class));
  };
  for (const char* stage : {"1", "2", "3"})
    expect_says(message_of<DeckError>([&] { load_deck(write(stage, ""), {}); }),
                {"model.modules.1.class", "missing", "\"h.a\"", "torch.nn.Linear"});
  EXPECT_NO_THROW(load_deck(write("0", ""), {}));
  EXPECT_EQ(load_deck(write("3", ", \"class\": \"my.Layer\""), {}).model.modules[1].python_class,
            "my.Layer");
}

// Sums of two probabilities rank no groups: the sign of a score marks its group.
TEST(BadModel, groups_of_experts_are_run_with_sigmoids_alone) {
  const ScratchFolder folder;
  const auto write = [&](const char* scores) {
    return folder.write("m.json", fmt::format(R"({{"deepspeed": {{"train_batch_size": 2}},
      "model": {{"family": "decoder", "layers": 1, "hidden": 8, "heads": 2, "kv_heads": 2, "ffn": 8,
                 "sequence": 4, "vocab": 8, "moe": {{"experts": 4, "per_token": 2, "groups": 2,
                                                     "token_groups": 1, "scores": "{}"}}}},
      "data": {{"source": "uniform"}}, "run": {{"steps": 1}}}})",
                                              scores));
  };
  EXPECT_NO_THROW(load_deck(write("sigmoid"), {}));
  EXPECT_NO_THROW(read_deck(write("softmax"), {}, DeckUse::plan));
  expect_says(message_of<DeckError>([&] { load_deck(write("softmax"), {}); }),
              {"model.moe.groups", "sigmoids"});
}

TEST(BadModel, a_list_cannot_be_trained_but_planned) {
  const ScratchFolder folder;
  const std::string path = folder.write("l.json", R"({"deepspeed": {"train_batch_size": 2},
      "model": {"family": "list", "modules": [{"name": "a", "numels": [3]}]},
      "run": {"steps": 1}})");
  expect_says(message_of<DeckError>([&] { load_deck(path, {}); }), {"run.compute", "list", "none"});
  EXPECT_NO_THROW(read_deck(path, {}, DeckUse::plan));
}

}  // namespace
}  // namespace shardmark::test::bad_model_test
