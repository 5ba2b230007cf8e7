// SPDX-License-Identifier: Apache-2.0
// Attention for all types against plain double loops, with and without groups of heads that share
// keys, and with what decoders do to scores: a scale, a window, a softcap, ALiBi, sinks. The bounds
// count the roundings: u is half a unit in the last place (relative 2^-24 in fp32, 2^-8 in bf16,
// 2^-11 in fp16); each probability and each gradient of a score is rounded once as an operand, and
// each result once. The errors of fp32 arithmetic are below `noise`.
#include <gtest/gtest.h>

#include <core/nn/layers/attention.hpp>
#include <core/plan/model/layout_offsets.hpp>
#include <tests/core/nn/models/single_process.hpp>
#include <tests/core/nn/products/all_bf16_products.hpp>

namespace shardmark::test::attention_test {
namespace {

using Doubles = std::vector<double>;

constexpr double noise = 2e-5;

template<class T>
constexpr double unit() {
  return std::is_same_v<T, Bf16> ? 0x1p-8 : std::is_same_v<T, Fp16> ? 0x1p-11 : 0x1p-24;
}

template<class T>
Buffer<T> filled(std::int64_t elems, std::uint64_t stream) {
  Buffer<T> b(elems);
  for (std::int64_t i = 0; i < elems; ++i)
    round_to(b[i], static_cast<float>(mix(2, stream, i) % 2001) / 1000.0f - 1.0f);
  return b;
}

// Values, and how far a result may differ from them.
struct Bounded {
  explicit Bounded(std::int64_t n) : value(n, 0.0), bound(n, 0.0) {}
  void add(std::int64_t i, double v, double b) {
    value[i] += v;
    bound[i] += b;
  }
  Doubles value, bound;
};

template<class T>
void expect_within(const Buffer<T>& have, const Bounded& want, const char* what) {
  for (std::size_t i = 0; i < want.value.size(); ++i)
    ASSERT_NEAR(widen(have[static_cast<std::int64_t>(i)]), want.value[i],
                want.bound[i] + unit<T>() * (std::abs(want.value[i]) + want.bound[i]) + noise)
        << what << " " << i;
}

template<class T>
struct Attention {
  Attention(std::int64_t head_dim, std::int64_t sequence, std::int64_t kv_heads, Bf16Products bf16,
            const AttentionRules& rules = {})
      : d(head_dim), has_sinks(rules.sinks), matmul(std::int64_t{16} << 20, bf16) {
    dims.heads = 4, dims.kv_heads = kv_heads, dims.hidden = 4 * d, dims.rules = rules;
    dims.sequence = sequence, dims.micro_batch = 2, dims.dtype = storage_of<T>;
    n_q = dims.rows() * dims.hidden, n_kv = dims.rows() * dims.kv_dim();
    for (std::int64_t h = 0; h < dims.heads; ++h) sink[h] = 0.5f * static_cast<float>(h) - 0.3f;
  }

  void check() {
    const auto q = filled<T>(n_q, 1), k = filled<T>(n_kv, 2), v = filled<T>(n_kv, 3);
    const auto dout = filled<T>(n_q, 4);
    Buffer<T> out(n_q), dq(n_q), dk(n_kv), dv(n_kv);
    Buffer<float> logsumexp(dims.rows() * dims.heads);
    run(q, k, v, out, logsumexp, dout, dq, dk, dv);
    Bounded o(n_q), oq(n_q), ok(n_kv), ov(n_kv);
    reference(q, k, v, out, dout, o, oq, ok, ov);
    expect_within(out, o, "out");
    expect_within(dq, oq, "dq");
    expect_within(dk, ok, "dk");
    expect_within(dv, ov, "dv");
    for (std::int64_t h = 0; has_sinks && h < dims.heads; ++h)
      EXPECT_NEAR(dsink[h], want_dsink[static_cast<std::size_t>(h)], 1e-4) << h;
  }

  void run(const Buffer<T>& q, const Buffer<T>& k, const Buffer<T>& v, const Buffer<T>& out,
           const Buffer<float>& logsumexp, const Buffer<T>& dout, const Buffer<T>& dq,
           const Buffer<T>& dk, const Buffer<T>& dv) {
    const auto in = [](const Buffer<T>& b) { return Stored{storage_of<T>, b.data()}; };
    Offsets forward(dims.dtype), backward(dims.dtype);
    const AttentionScratch f = attention_forward_scratch(dims, forward);
    const AttentionScratch b = attention_backward_scratch(dims, backward);
    Buffer<std::byte> scratch(std::max(forward.end(), backward.end())),
        gemm(std::int64_t{16} << 20);
    const std::span<std::byte> gemm_scratch{gemm.data(), static_cast<std::size_t>(gemm.size())};
    const QueryKeyValue<ConstStored> qkv{in(q), in(k), in(v), dims.hidden, dims.kv_dim()};
    const SinkGradients sinks{has_sinks ? sink.data() : nullptr, dsink.data()};
    attention_forward(ctx, dims, qkv, in(out), logsumexp.data(), scratch.data(), f, gemm_scratch,
                      sinks.sinks);
    attention_backward(ctx, dims, qkv, in(out), logsumexp.data(), in(dout),
                       {in(dq), in(dk), in(dv), dims.hidden, dims.kv_dim()}, scratch.data(), b,
                       gemm_scratch, sinks);
  }

  // Backward receives the `out` that forward stored, as in training.
  void reference(const Buffer<T>& q, const Buffer<T>& k, const Buffer<T>& v, const Buffer<T>& out,
                 const Buffer<T>& dout, Bounded& o, Bounded& dq, Bounded& dk, Bounded& dv) {
    const double u = std::is_same_v<T, float> ? 0 : unit<T>();
    const AttentionRules& rules = dims.rules;
    const double scale = rules.scale > 0 ? rules.scale : 1 / std::sqrt(double(d));
    for (std::int64_t r = 0; r < dims.rows(); ++r)
      for (std::int64_t head = 0; head < dims.heads; ++head) {
        const std::int64_t first = r / dims.sequence * dims.sequence,
                           at = r * dims.hidden + head * d;
        const std::int64_t kv_head = head / (dims.heads / dims.kv_heads) * d;
        const auto key = [&](std::int64_t j) { return j * dims.kv_dim() + kv_head; };
        const auto dot = [&](const Buffer<T>& a, std::int64_t i, const Buffer<T>& b,
                             std::int64_t j) {
          double sum = 0;
          for (std::int64_t c = 0; c < d; ++c) sum += double(widen(a[i + c])) * widen(b[j + c]);
          return sum;
        };
        Doubles p, slopes;
        const double of_sink = has_sinks ? std::exp(double(sink[head])) : 0;
        double total = of_sink;
        const std::int64_t seen = rules.window > 0 ? std::max(first, r - rules.window + 1) : first;
        for (std::int64_t j = seen; j <= r; ++j) {
          double score = scale * dot(q, at, k, key(j)), slope = scale;
          if (rules.softcap > 0) {
            const double t = std::tanh(score / rules.softcap);
            score = rules.softcap * t, slope *= 1 - t * t;
          }
          // Four heads: 2^-2, 2^-4, 2^-6 and 2^-8.
          score -= rules.alibi * std::exp2(-2.0 * double(head + 1)) * double(r - j);
          slopes.push_back(slope);
          p.push_back(std::exp(score));
          total += p.back();
        }
        const double delta = dot(out, at, dout, at);
        want_dsink[static_cast<std::size_t>(head)] -= of_sink / total * delta;
        for (std::int64_t j = seen; j <= r; ++j) {
          const double prob = p[j - seen] / total;
          const double ds = prob * (dot(dout, at, v, key(j)) - delta) * slopes[j - seen];
          for (std::int64_t c = 0; c < d; ++c) {
            const double value = widen(v[key(j) + c]), grad = widen(dout[at + c]);
            const double query = widen(q[at + c]), k_value = widen(k[key(j) + c]);
            o.add(at + c, prob * value, u * std::abs(prob * value));
            dv.add(key(j) + c, prob * grad, u * std::abs(prob * grad));
            dq.add(at + c, ds * k_value, u * std::abs(ds * k_value));
            dk.add(key(j) + c, ds * query, u * std::abs(ds * query));
          }
        }
      }
  }

  std::int64_t d;
  bool has_sinks;
  TransformerDims dims;
  Buffer<float> sink{4}, dsink{4};
  Doubles want_dsink = Doubles(4);
  MatMul matmul;
  Context ctx{Space(), matmul};
  std::int64_t n_q = 0, n_kv = 0;
};

template<class T>
void check_all(Bf16Products bf16) {
  struct Case {
    std::int64_t head_dim, sequence, kv_heads;
  };
  // One tile of rows and three tiles; head sizes that GPUs read element by element, in runs, and
  // that fit neither of their tiles.
  for (const Case& c : {Case{10, 7, 4}, Case{10, 150, 4}, Case{10, 150, 2}, Case{10, 150, 1},
                        Case{64, 150, 2}, Case{80, 70, 4}, Case{136, 40, 2}}) {
    SCOPED_TRACE(::testing::Message() << "head_dim " << c.head_dim << " sequence " << c.sequence
                                      << " kv_heads " << c.kv_heads);
    Attention<T>(c.head_dim, c.sequence, c.kv_heads, bf16).check();
  }
  if (std::is_same_v<T, Fp16>) return;  // the kernels are those of bf16
  // Windows within a tile, over several, and beyond the sequence.
  struct Ruled {
    const char* name;
    AttentionRules rules;
    std::int64_t head_dim = 10;
  };
  for (const Ruled& r :
       {Ruled{"a window of 1", {.window = 1}}, Ruled{"a window of 20", {.window = 20}},
        Ruled{"a window of 64", {.window = 64}}, Ruled{"a window of 97", {.window = 97}, 80},
        Ruled{"a window of 1000", {.window = 1000}}, Ruled{"a scale", {.scale = 0.7}},
        Ruled{"a softcap", {.softcap = 0.4}}, Ruled{"ALiBi", {.alibi = 1}, 80},
        Ruled{"sinks", {.sinks = true}}, Ruled{"a window and sinks", {.window = 70, .sinks = true}},
        Ruled{"all", {.window = 70, .scale = 0.3, .softcap = 2, .alibi = 0.5, .sinks = true}}}) {
    SCOPED_TRACE(r.name);
    Attention<T>(r.head_dim, 150, 2, bf16, r.rules).check();
  }
}

TEST(attention, equals_plain_loops_in_fp32) {
  check_all<float>(Bf16Products::widened);
}
TEST(attention, is_within_its_roundings_in_bf16) {
  for (const Bf16Products products : all_bf16_products()) check_all<Bf16>(products);
}
TEST(attention, is_within_its_roundings_in_fp16) {
  check_all<Fp16>(Bf16Products::widened);
}

}  // namespace
}  // namespace shardmark::test::attention_test
