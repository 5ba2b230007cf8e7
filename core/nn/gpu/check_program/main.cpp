// SPDX-License-Identifier: Apache-2.0
// Compares native attention of all types and cuBLASLt products with plain loops on the host. Run
// this program first on a new GPU. It exits with status 77 if there is no GPU.
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include <core/nn/gpu/attention_kernels.hpp>
#include <core/nn/gpu/check.hpp>
#include <core/nn/gpu/product.hpp>
#include <core/numeric/half.hpp>

namespace {

using namespace shardmark;

// Returns the values rounded to T.
template<class T>
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<float>& from) : size_(from.size()) {
    std::vector<T> values(size_);
    for (std::size_t i = 0; i < size_; ++i) round_to(values[i], from[i]);
    SHARDMARK_DEVICE(Malloc, &data_, size_ * sizeof(T));
    SHARDMARK_DEVICE(Memcpy, data_, values.data(), size_ * sizeof(T),
                     SHARDMARK_GPU(MemcpyHostToDevice));
  }
  ~DeviceArray() { static_cast<void>(SHARDMARK_GPU(Free)(data_)); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  T* data() const { return static_cast<T*>(data_); }
  std::vector<float> read() const {
    std::vector<T> values(size_);
    SHARDMARK_DEVICE(Memcpy, values.data(), data_, size_ * sizeof(T),
                     SHARDMARK_GPU(MemcpyDeviceToHost));
    std::vector<float> wide;
    wide.reserve(size_);
    for (const T& v : values) wide.push_back(widen(v));
    return wide;
  }

 private:
  void* data_ = nullptr;
  std::size_t size_;
};

std::vector<float> numbers(std::size_t count, unsigned seed) {
  std::vector<float> values(count);
  for (float& v : values)
    v = static_cast<float>((seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-23f - 1.0f;
  return values;
}

double worst(const std::vector<float>& have, const std::vector<double>& want) {
  double most = 0;
  for (std::size_t i = 0; i < want.size(); ++i)
    most = std::max(most, std::abs(static_cast<double>(have[i]) - want[i]));
  return most;
}

constexpr device::AttentionShape shape{2, 77, 4, 2, 24};
constexpr std::int64_t ld_q = shape.heads * shape.head_dim, ld_kv = shape.kv_heads * shape.head_dim;
constexpr std::int64_t rows = shape.micro_batch * shape.sequence;

// Returns the output of attention, computed with plain loops in fp64.
std::vector<double> attention_by_loops(const std::vector<double>& q, const std::vector<double>& k,
                                       const std::vector<double>& v) {
  std::vector<double> out(static_cast<std::size_t>(rows * ld_q), 0.0);
  const double scale = 1 / std::sqrt(static_cast<double>(shape.head_dim));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      const std::int64_t first = r / shape.sequence * shape.sequence;
      const std::int64_t at = h / (shape.heads / shape.kv_heads) * shape.head_dim;
      std::vector<double> p;
      double sum = 0;
      for (std::int64_t j = first; j <= r; ++j) {
        double s = 0;
        for (std::int64_t c = 0; c < shape.head_dim; ++c)
          s += q[static_cast<std::size_t>(r * ld_q + h * shape.head_dim + c)] *
               k[static_cast<std::size_t>(j * ld_kv + at + c)];
        p.push_back(std::exp(s * scale));
        sum += p.back();
      }
      for (std::int64_t j = first; j <= r; ++j)
        for (std::int64_t c = 0; c < shape.head_dim; ++c)
          out[static_cast<std::size_t>(r * ld_q + h * shape.head_dim + c)] +=
              p[static_cast<std::size_t>(j - first)] / sum *
              v[static_cast<std::size_t>(j * ld_kv + at + c)];
    }
  return out;
}

double loss(const std::vector<double>& out, const std::vector<float>& dout) {
  double sum = 0;
  for (std::size_t i = 0; i < out.size(); ++i) sum += out[i] * static_cast<double>(dout[i]);
  return sum;
}

// Returns the largest error of the gradient against central differences at some elements.
double gradient_error(std::vector<double> x[3], int which, const std::vector<float>& dout,
                      const std::vector<float>& have) {
  constexpr double step = 1e-5;
  double most = 0;
  for (std::size_t i = 0; i < have.size(); i += have.size() / 40 + 1) {
    const double before = x[which][i];
    x[which][i] = before + step;
    const double up = loss(attention_by_loops(x[0], x[1], x[2]), dout);
    x[which][i] = before - step;
    const double down = loss(attention_by_loops(x[0], x[1], x[2]), dout);
    x[which][i] = before;
    most = std::max(most, std::abs((up - down) / (2 * step) - static_cast<double>(have[i])));
  }
  return most;
}

bool report(const char* what, Dtype type, double error, double bound) {
  const bool good = error < bound;
  std::printf("%s %-32s off by at most %.2e: %s\n", std::string(to_string(type)).c_str(), what,
              error, good ? "good" : "WRONG");
  return good;
}

// `bound` allows a few roundings to T of values of about 1.
template<class T>
bool attention_is_right(double bound) {
  constexpr Dtype type = storage_of<T>;
  const auto q = numbers(static_cast<std::size_t>(rows * ld_q), 1);
  const auto k = numbers(static_cast<std::size_t>(rows * ld_kv), 2), v = numbers(k.size(), 3);
  const auto dout = numbers(q.size(), 4);
  const DeviceArray<T> dq(q), dk(k), dv(v), ddout(dout), out(q), gq(q), gk(k), gv(v);
  const std::vector<float> stats(static_cast<std::size_t>(rows * shape.heads));
  const DeviceArray<float> logsumexp(stats), delta(stats);
  const device::AttentionInput in{type, dq.data(), dk.data(), dv.data(), ld_q, ld_kv};
  device::attention_forward(nullptr, shape, in, out.data(), logsumexp.data());
  device::attention_backward(nullptr, shape, in, out.data(), logsumexp.data(), ddout.data(),
                             {gq.data(), gk.data(), gv.data(), ld_q, ld_kv}, delta.data());
  std::vector<double> x[3];
  for (int i = 0; const DeviceArray<T>* array : {&dq, &dk, &dv}) {
    const std::vector<float> values = array->read();
    x[i++].assign(values.begin(), values.end());
  }
  const std::vector<float> d = ddout.read();
  bool good = report("attention, forward", type,
                     worst(out.read(), attention_by_loops(x[0], x[1], x[2])), bound);
  good &= report("attention, gradient of queries", type, gradient_error(x, 0, d, gq.read()), bound);
  good &= report("attention, gradient of keys", type, gradient_error(x, 1, d, gk.read()), bound);
  return good &
         report("attention, gradient of values", type, gradient_error(x, 2, d, gv.read()), bound);
}

bool product_is_right(bool transpose_a, bool transpose_b) {
  constexpr std::int64_t m = 33, n = 20, k = 48;
  const auto a = numbers(m * k, 5), b = numbers(k * n, 6), bias = numbers(n, 7);
  MatMulShape s{m, n, k, transpose_a, transpose_b, transpose_a ? m : k, transpose_b ? k : n, n};
  s.bias = true;
  const DeviceArray<float> da(a), db(b), dbias(bias), dc(numbers(m * n, 8)),
      work(numbers(1 << 20, 9));
  std::vector<double> want;
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      want.push_back(bias[static_cast<std::size_t>(j)]);
      for (std::int64_t l = 0; l < k; ++l)
        want.back() +=
            static_cast<double>(a[static_cast<std::size_t>(transpose_a ? l * m + i : i * k + l)]) *
            b[static_cast<std::size_t>(transpose_b ? j * k + l : l * n + j)];
    }
  device::blas::Handle handle = nullptr;
  SHARDMARK_PRODUCT(Create, &handle);
  const device::ProductOperands p{da.data(), db.data(), dc.data(), dbias.data()};
  device::Product(handle, s, device::alignment_of(p), 4 << 20).run(handle, nullptr, p, work.data());
  const bool good = report("product with a bias", Dtype::fp32, worst(dc.read(), want), 1e-4);
  SHARDMARK_PRODUCT(Destroy, handle);
  return good;
}

}  // namespace

int main() try {
  int devices = 0;
  if (SHARDMARK_GPU(GetDeviceCount)(&devices) != device::success || devices == 0) {
    std::puts("no GPU: nothing was run");
    return 77;
  }
  bool good = attention_is_right<float>(1e-4);
  good &= attention_is_right<Bf16>(1e-2);
  good &= attention_is_right<Fp16>(2e-3);
  for (const bool a : {false, true})
    for (const bool b : {false, true}) good &= product_is_right(a, b);
  return good ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "cuda_check: %s\n", e.what());
  return 1;
}
