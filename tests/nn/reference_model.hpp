// SPDX-License-Identifier: Apache-2.0
// GPT-2's loss in double, as slow and as plain as it can be written: what the gradient test takes
// its difference quotients of. Parameters are one vector in registration order.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include <core/plan/transformer_sizes.hpp>

namespace shardmark::testing {

using Doubles = std::vector<double>;

class ReferenceModel {
 public:
  explicit ReferenceModel(const TransformerDims& dims) : d_(dims) {}

  double loss(const Doubles& param, const std::int32_t* tokens) const {
    const double* p = param.data();
    const std::int64_t h = d_.hidden;
    const double* wte = p;
    const double* wpe = wte + d_.vocab * h;
    p = wpe + d_.sequence * h;
    double sum = 0;
    Doubles all_x(d_.rows() * h);
    for (std::int64_t r = 0; r < d_.rows(); ++r)
      for (std::int64_t j = 0; j < h; ++j)
        all_x[r * h + j] = wte[token(tokens, r, 0) * h + j] + wpe[r % d_.sequence * h + j];
    for (std::int64_t l = 0; l < d_.layers; ++l) p = block(p, all_x);
    const Doubles x = norm(all_x, p);
    p += 2 * h;
    const double* head = d_.tied_head ? wte : p;
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
  static double dot(const double* a, const double* b, std::int64_t n) {
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
    return sum;
  }
  std::int64_t token(const std::int32_t* tokens, std::int64_t row, std::int64_t ahead) const {
    return tokens[row / d_.sequence * (d_.sequence + 1) + row % d_.sequence + ahead];
  }

  Doubles norm(const Doubles& x, const double* weight_bias) const {
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

  // y = x W^T + b; W [out][in], b right behind it.
  Doubles linear(const Doubles& x, const double* weight, std::int64_t in, std::int64_t out) const {
    Doubles y(d_.rows() * out);
    for (std::int64_t r = 0; r < d_.rows(); ++r)
      for (std::int64_t o = 0; o < out; ++o)
        y[r * out + o] = dot(&x[r * in], weight + o * in, in) + weight[out * in + o];
    return y;
  }

  Doubles attention(const Doubles& qkv) const {
    const std::int64_t h = d_.hidden, d = d_.head_dim();
    Doubles out(d_.rows() * h, 0.0);
    for (std::int64_t r = 0; r < d_.rows(); ++r)
      for (std::int64_t head = 0; head < d_.heads; ++head) {
        const std::int64_t first = r / d_.sequence * d_.sequence;
        Doubles p;
        double total = 0;
        for (std::int64_t key = first; key <= r; ++key) {
          p.push_back(
              std::exp(dot(&qkv[r * 3 * h + head * d], &qkv[key * 3 * h + h + head * d], d) /
                       std::sqrt(double(d))));
          total += p.back();
        }
        for (std::int64_t key = first; key <= r; ++key)
          for (std::int64_t j = 0; j < d; ++j)
            out[r * h + head * d + j] +=
                p[key - first] / total * qkv[key * 3 * h + 2 * h + head * d + j];
      }
    return out;
  }

  // x becomes the block's output; returns the parameters behind the block's.
  const double* block(const double* p, Doubles& x) const {
    const std::int64_t h = d_.hidden;
    auto add = [&](const Doubles& y) {
      for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
    };
    const Doubles qkv = linear(norm(x, p), p + 2 * h, h, 3 * h);
    p += 2 * h + 3 * h * h + 3 * h;
    add(linear(attention(qkv), p, h, h));
    p += h * h + h;
    Doubles fc = linear(norm(x, p), p + 2 * h, h, 4 * h);
    p += 2 * h + 4 * h * h + 4 * h;
    for (double& v : fc)
      v = 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
    add(linear(fc, p, 4 * h, h));
    return p + 4 * h * h + h;
  }

  TransformerDims d_;
};

}  // namespace shardmark::testing
