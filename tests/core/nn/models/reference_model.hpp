// SPDX-License-Identifier: Apache-2.0
// The loss of a transformer in double, written as plainly as possible. The gradient test takes its
// difference quotients from this loss. The parameters are one vector in registration order.
#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <vector>

#include <core/plan/model/transformer_sizes.hpp>

namespace shardmark::test {

using Doubles = std::vector<double>;

class ReferenceModel {
 public:
  ReferenceModel(const ModelSpec& spec, std::int64_t micro_batch)
      : spec_(spec), d_(transformer_dims(spec, micro_batch)) {}

  double loss(const Doubles& param, const std::int32_t* tokens) const {
    const double* p = param.data();
    const std::int64_t h = d_.hidden;
    const double* wte = p;
    p += d_.vocab * h;
    double sum = 0;
    Doubles x(d_.rows() * h);
    for (std::int64_t r = 0; r < d_.rows(); ++r)
      for (std::int64_t j = 0; j < h; ++j)
        x[r * h + j] = wte[token(tokens, r, 0) * h + j] + (gpt2() ? p[r % d_.sequence * h + j] : 0);
    if (gpt2()) p += d_.sequence * h;
    for (std::int64_t l = 0; l < d_.layers; ++l) p = gpt2() ? gpt2_block(p, x) : llama_block(p, x);
    x = gpt2() ? layer_norm(x, p) : rms_norm(x, p);
    p += gpt2() ? 2 * h : h;
    const double* head = spec_.tied_head ? wte : p;
    for (std::int64_t r = 0; r < d_.rows(); ++r) {
      double total = 0, target = 0;
      for (std::int64_t v = 0; v < d_.vocab; ++v) {
        const double logit = dot(&x[r * h], head + v * h, h);
        total += std::exp(logit);
        if (v == token(tokens, r, 1)) target = logit;
      }
      sum += std::log(total) - target;
    }
    return sum / static_cast<double>(d_.rows());
  }

 private:
  bool gpt2() const { return spec_.family == Family::gpt2; }
  static double dot(const double* a, const double* b, std::int64_t n) {
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
    return sum;
  }
  std::int64_t token(const std::int32_t* tokens, std::int64_t row, std::int64_t ahead) const {
    return tokens[row / d_.sequence * (d_.sequence + 1) + row % d_.sequence + ahead];
  }

  Doubles layer_norm(const Doubles& x, const double* weight_bias) const {
    const std::int64_t h = d_.hidden;
    Doubles y(x.size());
    for (std::int64_t r = 0; r < d_.rows(); ++r) {
      double mean = 0, variance = 0;
      for (std::int64_t j = 0; j < h; ++j) mean += x[r * h + j] / double(h);
      for (std::int64_t j = 0; j < h; ++j) variance += std::pow(x[r * h + j] - mean, 2) / double(h);
      for (std::int64_t j = 0; j < h; ++j)
        y[r * h + j] = (x[r * h + j] - mean) / std::sqrt(variance + 1e-5) * weight_bias[j] +
                       weight_bias[h + j];
    }
    return y;
  }

  Doubles rms_norm(const Doubles& x, const double* weight) const {
    const std::int64_t h = d_.hidden;
    Doubles y(x.size());
    for (std::int64_t r = 0; r < d_.rows(); ++r) {
      const double scale = std::sqrt(dot(&x[r * h], &x[r * h], h) / double(h) + 1e-5);
      for (std::int64_t j = 0; j < h; ++j) y[r * h + j] = x[r * h + j] / scale * weight[j];
    }
    return y;
  }

  // y = x W^T (+ b). W is [out][in], and b follows directly after it.
  Doubles linear(const Doubles& x, const double* weight, std::int64_t in, std::int64_t out,
                 bool bias) const {
    Doubles y(d_.rows() * out);
    for (std::int64_t r = 0; r < d_.rows(); ++r)
      for (std::int64_t o = 0; o < out; ++o)
        y[r * out + o] = dot(&x[r * in], weight + o * in, in) + (bias ? weight[out * in + o] : 0.0);
    return y;
  }

  // q is [rows][heads][d]; k and v are [rows][kv_heads][d].
  Doubles attention(const Doubles& q, const Doubles& k, const Doubles& v) const {
    const std::int64_t h = d_.hidden, d = d_.head_dim(), kv = d_.kv_dim();
    Doubles out(d_.rows() * h, 0.0);
    for (std::int64_t r = 0; r < d_.rows(); ++r)
      for (std::int64_t head = 0; head < d_.heads; ++head) {
        const std::int64_t first = r / d_.sequence * d_.sequence;
        const std::int64_t shared = head / (d_.heads / d_.kv_heads) * d;
        Doubles p;
        double total = 0;
        for (std::int64_t key = first; key <= r; ++key) {
          p.push_back(
              std::exp(dot(&q[r * h + head * d], &k[key * kv + shared], d) / std::sqrt(double(d))));
          total += p.back();
        }
        for (std::int64_t key = first; key <= r; ++key)
          for (std::int64_t j = 0; j < d; ++j)
            out[r * h + head * d + j] += p[key - first] / total * v[key * kv + shared + j];
      }
    return out;
  }

  // Treats the pair (j, j + d/2) of each head as a complex number and multiplies it by e^(i
  // position 10000^(-2j/d)).
  void rotate(Doubles& x, std::int64_t heads) const {
    const std::int64_t d = d_.head_dim(), half = d / 2;
    for (std::int64_t r = 0; r < d_.rows(); ++r)
      for (std::int64_t head = 0; head < heads; ++head)
        for (std::int64_t j = 0; j < half; ++j) {
          double &re = x[(r * heads + head) * d + j], &im = (&re)[half];
          const double angle =
              double(r % d_.sequence) * std::pow(10000.0, -2.0 * double(j) / double(d));
          const std::complex<double> z = std::complex<double>(re, im) * std::polar(1.0, angle);
          re = z.real(), im = z.imag();
        }
  }

  static void add(Doubles& x, const Doubles& y) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }

  // Replaces x by the output of the block. Returns a pointer to the parameters after those of the
  // block.
  const double* gpt2_block(const double* p, Doubles& x) const {
    const std::int64_t h = d_.hidden;
    const Doubles norm = layer_norm(x, p), w(p + 2 * h, p + 2 * h + 3 * h * h + 3 * h);
    Doubles parts[3];
    for (std::int64_t i = 0; i < 3; ++i) {
      parts[i] = linear(norm, &w[i * h * h], h, h, false);
      for (std::size_t e = 0; e < parts[i].size(); ++e)
        parts[i][e] += w[3 * h * h + i * h + static_cast<std::int64_t>(e) % h];
    }
    p += 2 * h + 3 * h * h + 3 * h;
    add(x, linear(attention(parts[0], parts[1], parts[2]), p, h, h, true));
    p += h * h + h;
    Doubles fc = linear(layer_norm(x, p), p + 2 * h, h, 4 * h, true);
    p += 2 * h + 4 * h * h + 4 * h;
    for (double& e : fc)
      e = 0.5 * e * (1 + std::tanh(std::sqrt(2 / M_PI) * (e + 0.044715 * e * e * e)));
    add(x, linear(fc, p, 4 * h, h, true));
    return p + 4 * h * h + h;
  }

  const double* llama_block(const double* p, Doubles& x) const {
    const std::int64_t h = d_.hidden, kv = d_.kv_dim(), ffn = d_.ffn;
    auto take = [&](const Doubles& in, std::int64_t columns, std::int64_t out, bool bias = false) {
      const double* weight = p;
      p += out * columns + (bias ? out : 0);
      return linear(in, weight, columns, out, bias);
    };
    Doubles norm = rms_norm(x, p);
    p += h;
    Doubles q = take(norm, h, h, spec_.qkv_bias), k = take(norm, h, kv, spec_.qkv_bias);
    const Doubles v = take(norm, h, kv, spec_.qkv_bias);
    rotate(q, d_.heads);
    rotate(k, d_.kv_heads);
    add(x, take(attention(q, k, v), h, h));
    norm = rms_norm(x, p);
    p += h;
    Doubles gate = take(norm, h, ffn);
    const Doubles up = take(norm, h, ffn);
    for (std::size_t i = 0; i < gate.size(); ++i)
      gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
    add(x, take(gate, ffn, h));
    return p;
  }

  ModelSpec spec_;
  TransformerDims d_;
};

}  // namespace shardmark::test
