// SPDX-License-Identifier: Apache-2.0
// Lion, SGD and Adagrad: five steps as PyTorch's and DeepSpeed's own optimizers take them
// (tests/data/optimizer_steps.json). A shard's bits do not depend on how the buffer is cut, and
// rounding on the way changes none.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <core/nn/optimizer/updates.hpp>
#include <core/numeric/half.hpp>
#include <tests/core/nn/models/single_process.hpp>

namespace shardmark::test::optimizers_test {
namespace {

using nlohmann::json;

// Updates `elems` elements in step number `step`.
using Update = std::function<void(const Context&, std::int64_t elems, float* param, ConstStored,
                                  float* moment, std::int64_t step, std::optional<Stored>)>;

Update update_of(const std::string& kernel, const json& o, const double* clip = nullptr) {
  const double lr = o.value("lr", kernel == "adagrad" ? 1e-2 : 1e-3);
  const double decay = o.value("weight_decay", 0.0);
  if (kernel == "lion") {
    const json betas = o.value("betas", json::array({0.9, 0.999}));
    const LionStep s{lr, betas[0], betas[1], decay, true};
    return [=](const Context& ctx, std::int64_t n, float* p, ConstStored g, float* m, std::int64_t,
               std::optional<Stored> to) { lion_update(ctx, n, p, g, m, s, clip, to); };
  }
  if (kernel == "sgd") {
    const bool keeps = o.value("momentum", 0.0) != 0;
    const SgdStep s{lr, o.value("momentum", 0.0), o.value("dampening", 0.0), decay,
                    o.value("nesterov", false)};
    return [=](const Context& ctx, std::int64_t n, float* p, ConstStored g, float* m,
               std::int64_t step, std::optional<Stored> to) {
      SgdStep now = s;
      now.step = step;
      sgd_update(ctx, n, p, g, keeps ? m : nullptr, now, clip, to);
    };
  }
  const AdagradStep s{lr, o.value("lr_decay", 0.0), o.value("eps", 1e-10), decay,
                      o.value("initial_accumulator_value", 0.0)};
  return [=](const Context& ctx, std::int64_t n, float* p, ConstStored g, float* v,
             std::int64_t step, std::optional<Stored> to) {
    AdagradStep now = s;
    now.step = step;
    adagrad_update(ctx, n, p, g, v, now, clip, to);
  };
}

TEST(Optimizers, take_the_steps_of_pytorch_and_deepspeed) {
  std::ifstream file(std::string(SHARDMARK_TESTS) + "/data/optimizer_steps.json");
  const json all = json::parse(file);
  MatMul matmul(0);
  const Context ctx{Space(), matmul};
  const auto first = all.at("first").get<std::vector<float>>();
  const auto n = static_cast<std::int64_t>(first.size());
  EXPECT_GE(all.at("cases").size(), 8U);
  for (const json& c : all.at("cases")) {
    SCOPED_TRACE(c.at("name").get<std::string>());
    const Update update = update_of(c.at("kernel"), c.at("params"));
    const Buffer<float> p(n), m(n), g(n);
    std::copy(first.begin(), first.end(), p.data());
    std::fill_n(m.data(), n, 0.0f);
    std::int64_t step = 0;
    for (const json& gradient : all.at("gradients")) {
      const auto values = gradient.get<std::vector<float>>();
      std::copy(values.begin(), values.end(), g.data());
      update(ctx, n, p.data(), g.data(), m.data(), ++step, {});
    }
    for (std::int64_t i = 0; i < n; ++i) {
      EXPECT_NEAR(p[i], c.at("param")[i].get<float>(), 1e-6) << i;
      if (!c.at("state").empty()) {
        EXPECT_NEAR(m[i], c.at("state")[i].get<float>(), 1e-6) << i;
      }
    }
  }
}

const json settings[] = {
    {{"kernel", "lion"}, {"weight_decay", 0.1}},
    {{"kernel", "sgd"}, {"weight_decay", 0.1}},
    {{"kernel", "sgd"}, {"momentum", 0.9}, {"dampening", 0.2}, {"weight_decay", 0.1}},
    {{"kernel", "adagrad"}, {"lr_decay", 0.1}, {"initial_accumulator_value", 0.1}}};

struct Arrays {
  Buffer<float> p, g, m;
  explicit Arrays(std::int64_t n) : p(n), g(n), m(n) {
    for (std::int64_t i = 0; i < n; ++i) {
      auto draw = [&](std::uint64_t s) { return float(mix(1, s, i) % 2001) / 1000.0f - 1.0f; };
      p[i] = draw(1), g[i] = draw(2), m[i] = std::abs(draw(3));
    }
  }
};

void expect_same(Arrays& a, Arrays& b, std::int64_t n) {
  EXPECT_EQ(std::memcmp(a.p.data(), b.p.data(), n * sizeof(float)), 0);
  EXPECT_EQ(std::memcmp(a.m.data(), b.m.data(), n * sizeof(float)), 0);
}

TEST(Optimizers, give_the_same_bits_in_shards) {
  const std::int64_t n = 30001;
  MatMul matmul(0);
  const Context ctx{Space(), matmul};
  const Number clip(0.7);
  for (const json& o : settings) {
    const Update update = update_of(o.at("kernel"), o, clip.data());
    Arrays one(n), cut(n);
    for (std::int64_t step = 1; step <= 3; ++step) {
      update(ctx, n, one.p.data(), one.g.data(), one.m.data(), step, {});
      for (std::int64_t at = 0, size = 1; at < n; at += size, size = size * 3 + 1)
        update(ctx, std::min(size, n - at), cut.p.data() + at, cut.g.data() + at, cut.m.data() + at,
               step, {});
    }
    expect_same(one, cut, n);
  }
}

TEST(Optimizers, widen_and_round_on_the_way_to_the_same_bits) {
  MatMul matmul(0);
  const Context ctx{Space(), matmul};
  const Number clip(0.7);
  for (const std::int64_t n : {30'001, 600'001})
    for (const json& o : settings) {
      const Update update = update_of(o.at("kernel"), o, clip.data());
      Arrays one(n), three(n);
      Buffer<Bf16> grad(n), fused(n), apart(n);
      for (std::int64_t i = 0; i < n; ++i) round_to(grad[i], one.g[i]);
      update(ctx, n, one.p.data(), {Dtype::bf16, grad.data()}, one.m.data(), 2,
             Stored{Dtype::bf16, fused.data()});
      convert(ctx, n, three.g.data(), {Dtype::bf16, grad.data()});
      update(ctx, n, three.p.data(), three.g.data(), three.m.data(), 2, {});
      convert(ctx, n, {Dtype::bf16, apart.data()}, three.p.data());
      expect_same(one, three, n);
      EXPECT_EQ(std::memcmp(fused.data(), apart.data(), n * sizeof(Bf16)), 0);
    }
}

// Where gradient and momentum are 0, DeepSpeed's kernels for GPUs and for the host go opposite
// ways: the one asks whether the update is positive, the other takes its sign bit.
TEST(Optimizers, lion_moves_what_has_no_gradient_as_deepspeed_does) {
  MatMul matmul(0);
  const Context ctx{Space(), matmul};
  for (const bool on_host : {false, true}) {
    Buffer<float> p(1), g(1), m(1);
    p[0] = 1.0f, g[0] = 0.0f, m[0] = 0.0f;
    LionStep step;
    step.lr = 0.25;
    step.zero_is_positive = on_host;
    lion_update(ctx, 1, p.data(), g.data(), m.data(), step, nullptr);
    EXPECT_EQ(p[0], on_host ? 0.75f : 1.25f);
  }
}

}  // namespace
}  // namespace shardmark::test::optimizers_test
