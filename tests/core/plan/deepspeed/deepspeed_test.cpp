// SPDX-License-Identifier: Apache-2.0
// Rule: plans of larger models with the schedule `deepspeed` are those that follow from DeepSpeed's
// rules (tests/data/deepspeed_vectors.json). every_knob_test.cpp tests the knobs.
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <core/plan/build/legal_program.hpp>
#include <core/plan/deepspeed/stage3/param_coordinator.hpp>
#include <core/plan/interpret/check.hpp>
#include <core/plan/interpret/footprint.hpp>
#include <core/plan/interpret/print.hpp>
#include <core/plan/interpret/volume.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::test::deepspeed_test {
namespace {

using nlohmann::json;

TEST(DeepSpeed, TrainsLegallyToo) {
  for (int stage : {0, 1, 2, 3})
    for (bool tied : {false, true})
      for (std::int64_t accumulation : {1, 3}) {
        Deck deck = deepspeed_deck(stage);
        deck.model.tied_head = tied;
        const Program p = program(deck, 3, 1, accumulation);
        ASSERT_NO_THROW(require_legal(check(p))) << stage;
      }
}

// Many micro-batches or steps add no segments, so the program stays small.
TEST(DeepSpeed, StepsRepeatThemselvesSoon) {
  for (std::int64_t accumulation : {2, 100}) {
    const Program p = program(deepspeed_deck(3), 3, 0, accumulation);
    EXPECT_LE(p.segments.size(), 12U);
    EXPECT_LE(p.steps.size(), 3U);
    EXPECT_EQ(p.steps.back().micros.size(), accumulation);
  }
}

// With torch's activation checkpointing, DeepSpeed 0.19.8 was observed to gather 1.70 parameters
// per parameter and step with a reuse window (the same as without checkpointing), and 2.41 without
// a window and prefetch.
TEST(DeepSpeed, ActivationCheckpointingGathersABlockOnceMore) {
  auto gathered = [](std::int64_t prefetch, std::int64_t reuse, std::int64_t persist,
                     bool recompute) {
    Deck d = gpt2_deck(3, 2);
    d.run.schedule = Schedule::deepspeed;
    d.run.compute = Compute::none;
    d.run.activation_checkpointing = recompute;
    d.model.hidden = 64, d.model.heads = 4, d.model.sequence = 16, d.model.vocab = 500;
    ZeroKnobs& k = d.zero.knobs;
    k.overlap_comm = true;
    k.prefetch_bucket_size = prefetch, k.max_reuse_distance = reuse;
    k.max_live_parameters = 60000, k.param_persistence_threshold = persist;
    const Program p = program(d, 2, 0);
    std::int64_t elems = 0;
    for (const SegmentRun& run : p.steps[step_path(p, false).back()].micros.runs())
      for (int segment : run.segments)
        elems += volume(p.segments[segment], all_groups, run.times)[Op::all_gather].elems;
    return static_cast<double>(elems) / static_cast<double>(p.model.elems);
  };
  EXPECT_NEAR(gathered(8000, 30000, 100, false), 1.70, 0.005);
  EXPECT_NEAR(gathered(8000, 30000, 100, true), 1.70, 0.005);
  EXPECT_NEAR(gathered(0, 0, 0, true), 2.41, 0.005);
}

// Records the gathers in their order and the largest amount that is gathered at a time, as the
// coordinator decides.
class Recorder : public FetchActions {
 public:
  Recorder(const ModelShape& model, int world) : model_(model), world_(world) {}
  void fetch(const std::vector<int>& params) override {
    std::int64_t elems = 0;
    for (int p : params) {
      const std::int64_t n = model_.params[p].elems;
      elems += (n + world_ - 1) / world_ * world_;
      live += n;
    }
    peak = std::max(peak, live);
    if (!count) return;
    ++calls;
    (backward ? elems_backward : elems_forward) += elems;
    sequence.push_back(
        json::array({backward ? "bwd" : "fwd", static_cast<std::int64_t>(params.size()), elems}));
  }
  void arrive(const std::vector<int>&) override {}
  void release(int p) override { live -= model_.params[p].elems; }
  void compare_lists(std::int64_t) override {}

  std::int64_t live = 0, peak = 0, calls = 0, elems_forward = 0, elems_backward = 0;
  bool backward = false, count = false;
  json sequence = json::array();

 private:
  const ModelShape& model_;
  int world_;
};

ModelSpec spec_of(const json& v) {
  ModelSpec s;
  const std::string name = v.at("name");
  if (!v.at("modules").is_null()) {
    s.family = Family::list;
    for (const json& m : v.at("modules")) s.modules.push_back({m.at("name"), m.at("numels")});
  } else if (name.starts_with("gpt2-124m")) {
    s.layers = 12, s.hidden = 768, s.heads = 12, s.sequence = 1024, s.vocab = 50257;
  } else if (name.starts_with("llama-7b")) {
    s.family = Family::llama;
    s.layers = 32, s.hidden = 4096, s.heads = s.kv_heads = 32, s.ffn = 11008;
    s.sequence = 4096, s.vocab = 32000;
  } else {
    throw PlanError("test: no model for " + name);
  }
  return s;
}

// The vectors describe chains in which every module except the root has a post-backward hook,
// including embeddings.
void hook_embeddings(ModelShape& shape) {
  std::vector<Visit> visits;
  for (const Visit& v : shape.visits) {
    visits.push_back(v);
    const Role role = shape.modules[v.module].role;
    if (v.kind == VisitKind::pre_backward &&
        (role == Role::token_embedding || role == Role::position_embedding))
      visits.push_back({VisitKind::post_backward, v.module});
  }
  shape.visits = std::move(visits);
}

// Keeps only the root and the modules with parameters, because some vectors omit the containers.
void drop_containers(ModelShape& shape) {
  std::erase_if(shape.visits, [&](const Visit& v) {
    return v.module != 0 && shape.modules[v.module].role == Role::container;
  });
}

void expect_gathers(const ModelShape& shape, const ZeroKnobs& knobs, const json& want, int world) {
  Coordinator c(shape, knobs);
  Recorder r(shape, world);
  for (int pass = 0; pass < 4; ++pass) {  // the recording pass, the traced pass, the steady state
    r.count = pass == 3;
    r.peak = r.count ? r.live : 0;
    r.backward = false;
    c.begin_pass(r);
    for (const Visit& v : shape.visits) {
      r.backward = r.backward || v.kind == VisitKind::pre_backward;
      c.visit(v, r);
    }
    c.end_pass(r);
    c.release_all(r);
    c.gathered_persistent();
    for (int p : c.persistent()) r.live += shape.params[p].elems;
  }
  EXPECT_EQ(r.calls, want.at("all_gather_calls"));
  EXPECT_EQ(r.elems_forward, want.at("all_gather_elems_forward"));
  EXPECT_EQ(r.elems_backward, want.at("all_gather_elems_backward"));
  EXPECT_EQ(r.peak, want.at("peak_live_elems"));
  if (want.at("all_gather_sequence").is_null()) return;
  json sequence = json::array();
  for (const json& row : want.at("all_gather_sequence"))
    sequence.push_back({row[0].get<std::string>().substr(0, 3), row[1], row[2]});
  EXPECT_EQ(r.sequence, sequence);
}

// The gradient messages of a steady step, in the format of the vectors.
json messages(const Deck& deck, int world, Op scatter) {
  const json rows = json::parse(print_json(build_program(deck, {world, 1, 1}, world, 0, {}), {}, "")
                                    .at("steps")
                                    .at("steady")
                                    .dump());
  json list = json::array();
  for (const json& row : rows) {
    const std::string op = row.at("op"), phase = row.at("phase");
    if (phase[0] != 'b' || op == "all_gather") continue;
    if (scatter == Op::reduce_scatter) {
      list.push_back(row.at("elems_in"));
      continue;
    }
    const std::string to =
        row.contains("root") ? "->" + std::to_string(row.at("root").get<int>()) : "";
    list.push_back({op + to, row.at("elems_in")});
  }
  return list;
}

TEST(DeepSpeed, VectorsOfLargerModels) {
  std::ifstream file(std::string(SHARDMARK_TESTS) + "/data/deepspeed_vectors.json");
  const json all = json::parse(file);
  ASSERT_GE(all.size(), 6U);
  for (const json& v : all) {
    const int world = v.at("world_size");
    SCOPED_TRACE(v.at("name").get<std::string>() + " on " + std::to_string(world) + " ranks");
    Deck deck;
    deck.model = spec_of(v);
    deck.run.compute = Compute::none;
    ZeroKnobs& knobs = deck.zero.knobs;
    knobs.reduce_bucket_size = v.at("reduce_bucket_size");
    ModelShape shape = build_model_shape(deck.model);
    EXPECT_EQ(shape.elems, v.at("params"));
    EXPECT_EQ(shape.params.size(), v.at("tensors"));

    auto at_stage = [&](int stage, const char* key, Op scatter = Op::all_reduce) {
      deck.zero.stage = stage;
      knobs.overlap_comm = stage == 3;
      EXPECT_EQ(messages(deck, world, scatter), v.at(key)) << key;
      const Program p = build_program(deck, {world, 1, 1}, world, 0, {});
      if (stage == 2) {
        EXPECT_EQ(p.partition.padded, v.at("flat_padded"));
        EXPECT_EQ(p.partition.per_rank, v.at("flat_partition"));
      }
    };
    at_stage(2, "stage2_default");
    at_stage(1, "stage1_no_overlap");
    knobs.use_multi_rank_bucket_allreduce = false;
    at_stage(2, "stage2_multi_rank_false");
    knobs.use_multi_rank_bucket_allreduce = true;
    knobs.reduce_scatter = false;
    at_stage(2, "stage2_reduce_scatter_false");
    knobs.reduce_scatter = true;
    deck.zero.stage = 0;
    json flushes = json::array();
    for (const json& m : messages(deck, world, Op::all_reduce)) flushes.push_back(m[1]);
    EXPECT_EQ(flushes, v.at("stage0_all_reduce"));

    const json& settings = v.at("stage3").at("settings");
    knobs.prefetch_bucket_size = settings.at("prefetch");
    knobs.max_live_parameters = settings.at("max_live");
    knobs.max_reuse_distance = settings.at("max_reuse");
    knobs.param_persistence_threshold = settings.at("persist");
    deck.zero.stage = 3;
    knobs.overlap_comm = true;
    EXPECT_EQ(messages(deck, world, Op::reduce_scatter),
              v.at("stage3").at("reduce_scatter_input_elems"));
    hook_embeddings(shape);
    if (!v.at("stage3_with_containers").is_null())
      expect_gathers(shape, knobs, v.at("stage3_with_containers"), world);
    drop_containers(shape);
    expect_gathers(shape, knobs, v.at("stage3"), world);
  }
}

// An average needs no separate pass over memory if a copy is made anyway; only a tensor that is
// reduced in place is divided there.
TEST(DeepSpeed, AveragesOnTheWay) {
  for (int stage : {0, 1, 2, 3})
    for (bool contiguous : {true, false})
      for (std::int64_t bucket : {std::int64_t{500'000'000}, std::int64_t{1800}}) {
        Deck d = deepspeed_deck(stage);
        d.zero.precision.model = d.zero.precision.comm = d.zero.precision.grad_accum = Dtype::bf16;
        d.zero.knobs.reduce_bucket_size = bucket;
        d.zero.knobs.contiguous_gradients = contiguous;
        const Program p = program(d, 4, 0);
        int divided = 0, alone = 0;
        for (const Segment& s : p.segments)
          for (const Event& e : s.events) {
            divided += e.divisor == 4;
            if (e.kernel != Kernel::scale) continue;
            ++alone;
            const Operand& o = operand_of(p, e, 0);
            const std::string& name = p.slots[static_cast<std::size_t>(o.slot)].name;
            EXPECT_TRUE(name.starts_with("grad.") || (stage == 3 && name == "bucket")) << name;
            EXPECT_LT(bucket, 500'000'000) << "stage " << stage << ": " << name;
          }
        EXPECT_GT(divided, alone) << "stage " << stage;
      }
}

}  // namespace
}  // namespace shardmark::test::deepspeed_test
