// SPDX-License-Identifier: Apache-2.0
// Every run and every alignment gives the same bits. Therefore stages can be compared bit by bit
// although they keep the same values at different addresses.
#include <array>
#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include <tests/core/nn/models/single_process.hpp>
#include <tests/core/nn/products/all_bf16_products.hpp>

namespace shardmark::test::determinism_test {
namespace {

ModelSpec small(Family family) {
  ModelSpec spec;
  spec.family = family;
  spec.layers = 1, spec.hidden = 48, spec.heads = 6, spec.sequence = 71, spec.vocab = 101;
  spec.kv_heads = 3, spec.ffn = 77;
  return spec;
}
constexpr Family families[] = {Family::gpt2, Family::llama};

// One block forward and backward with every buffer moved by `shift` elements. The buffer that
// forward saves, which contains fp32 values, is moved by `shift` of those.
template<class T>
std::vector<float> block_results(Family family, std::int64_t shift, bool accumulate,
                                 Bf16Products products) {
  const SingleProcessOf<T> model(small(family), 2, 3, products);
  const TransformerDims& d = model.dims;
  const std::int64_t x_elems = d.rows() * d.hidden, params = model.shape.units[1].elems;
  auto moved = [&](std::int64_t elems) { return Buffer<T>(elems + 32); };
  const auto param = moved(params), x_in = moved(x_elems), x_out = moved(x_elems);
  const auto saved = moved(saved_elems(d, UnitKind::block)), dx = moved(x_elems),
             grad = moved(params);
  std::memcpy(param.data() + shift, model.param[1].data(), params * sizeof(T));
  for (std::int64_t i = 0; i < x_elems; ++i) {
    round_to(x_in[shift + i], static_cast<float>(mix(1, 1, i) % 2001) / 1000.0f - 1.0f);
    round_to(dx[shift + i], static_cast<float>(mix(1, 2, i) % 2001) / 1000.0f - 1.0f);
  }
  for (std::int64_t i = 0; i < grad.size(); ++i) grad[i] = T{};
  const std::span<std::byte> workspace{model.workspace.data(),
                                       static_cast<std::size_t>(model.workspace.size())};
  TransformerBuffers b;
  b.at[ModuleBuffer::x_in] = x_in.data() + shift;
  b.at[ModuleBuffer::x_out] = x_out.data() + shift;
  b.at[ModuleBuffer::dx] = dx.data() + shift;
  b.at[ModuleBuffer::saved] = reinterpret_cast<float*>(saved.data()) + shift;
  b.workspace = workspace;
  const std::int64_t first = model.shape.units[1].first_elem;
  for (const VisitKind pass : {VisitKind::pre_forward, VisitKind::pre_backward})
    for (int m : model.shape.computing(pass)) {
      if (model.shape.modules[m].unit != 1) continue;
      std::array<const void*, 2> weights{};
      std::array<void*, 2> grads{};
      for (std::size_t i = 0; int id : model.shape.params_of(m)) {
        const std::int64_t at = shift + model.shape.params[id].first_elem - first;
        weights[i] = param.data() + at;
        grads[i++] = grad.data() + at;
      }
      const Role role = model.shape.modules[m].role;
      if (pass == VisitKind::pre_forward)
        transformer_forward(model.ctx, d, role, weights.data(), b);
      else
        transformer_backward(model.ctx, d, role, weights.data(), grads.data(), accumulate, b);
    }
  std::vector<float> all;
  for (const auto& [buffer, elems] : {std::pair{&x_out, x_elems}, {&dx, x_elems}, {&grad, params}})
    for (std::int64_t i = 0; i < elems; ++i) all.push_back(widen((*buffer)[shift + i]));
  return all;
}

template<class T>
void expect_same_at_every_alignment(Bf16Products products) {
  for (const Family family : families)
    for (const bool accumulate : {false, true}) {
      const std::vector<float> expected = block_results<T>(family, 0, accumulate, products);
      for (std::int64_t shift = 1; shift < 16; ++shift) {
        // cuBLASLt has other products for operands that are not aligned to 16 bytes.
        if (on_a_gpu && shift % 8 != 0) continue;
        const std::vector<float> result = block_results<T>(family, shift, accumulate, products);
        EXPECT_EQ(std::memcmp(result.data(), expected.data(), expected.size() * sizeof(float)), 0)
            << to_string(family) << " shifted by " << shift << " elements";
      }
    }
}

TEST(determinism, a_block_gives_the_same_bits_at_every_alignment) {
  expect_same_at_every_alignment<float>(Bf16Products::widened);
  expect_same_at_every_alignment<Fp16>(Bf16Products::widened);
  for (const Bf16Products products : all_bf16_products())
    expect_same_at_every_alignment<Bf16>(products);
}

TEST(determinism, a_training_repeats_bit_by_bit) {
  std::vector<std::vector<float>> runs;
  for (int run = 0; run < 2; ++run) {
    SingleProcess model(small(Family::gpt2), 2, 3);
    AdamWStep step;
    for (step.step = 1; step.step <= 3; ++step.step) {
      model.uniform_tokens(1, step.step);
      model.forward();
      model.backward();
      model.update(step, 0.1);
    }
    std::vector<float> all;
    for (const auto& p : model.param) all.insert(all.end(), p.data(), p.data() + p.size());
    all.push_back(static_cast<float>(model.loss[0]));
    runs.push_back(std::move(all));
  }
  EXPECT_EQ(std::memcmp(runs[0].data(), runs[1].data(), runs[0].size() * sizeof(float)), 0);
}

// Kokkos Tools callbacks are C functions without user data, so what they record is global.
std::vector<std::string>* labels_seen = nullptr;

TEST(determinism, every_kernel_of_a_step_is_labelled) {
  std::vector<std::string> labels;
  labels_seen = &labels;
  using namespace Kokkos::Tools::Experimental;
  auto see = [](const char* label, const std::uint32_t, std::uint64_t*) {
    labels_seen->emplace_back(label);
  };
  labels.clear();
  set_begin_parallel_for_callback(see);
  set_begin_parallel_reduce_callback(see);
  for (const Family family : families) {
    SingleProcess model(small(family), 2, 3);
    model.uniform_tokens(1, 0);
    model.forward();
    model.backward();
    model.update({}, 1.0);
  }
  set_begin_parallel_for_callback(nullptr);
  set_begin_parallel_reduce_callback(nullptr);
  labels_seen = nullptr;
  EXPECT_GT(labels.size(), 80u);
  for (const std::string& label : labels) EXPECT_EQ(label.rfind("shardmark::", 0), 0u) << label;
}

}  // namespace
}  // namespace shardmark::test::determinism_test
