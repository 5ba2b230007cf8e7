// SPDX-License-Identifier: Apache-2.0
// The matrix products of CPU builds. This is the only file that computes with oneDNN.
#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/core.h>
#include <oneapi/dnnl/dnnl.hpp>

#include <core/cache_line.hpp>
#include <core/error.hpp>
#include <core/nn/kernels/kernel.hpp>
#include <core/nn/products/matmul.hpp>
#include <core/nn/products/matmul_pieces.hpp>

namespace shardmark {
namespace {

using Desc = dnnl::memory::desc;
using Clock = std::chrono::steady_clock;

static_assert(kernel::on_host,
              "oneDNN's products here run on host memory: a GPU build needs its own matmul file");

// fp16 is absent, because oneDNN 2 has no fp16 products for CPUs.
dnnl::memory::data_type library_type(Dtype type) {
  return type == Dtype::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

std::int64_t round_to_line(std::int64_t bytes) {
  return (bytes + cache_line_bytes - 1) / cache_line_bytes * cache_line_bytes;
}

std::int64_t ns_since(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

// Describes a matrix of rows x cols as the product sees it, or a batch of such matrices.
Desc describe(const MatMulShape& s, Dtype type, std::int64_t rows, std::int64_t cols,
              bool transposed, std::int64_t ld, std::int64_t stride) {
  const std::int64_t row = transposed ? 1 : ld, col = transposed ? ld : 1;
  const auto t = library_type(type);
  if (s.batch == 1) return Desc({rows, cols}, t, dnnl::memory::dims{row, col});
  return Desc({s.batch, rows, cols}, t, dnnl::memory::dims{stride, row, col});
}

// Whether the stored rows of an operand compete for the same few lines of a first-level cache.
// Implementations without a layout of their own (AVX2) read a column of such rows at a time, and
// are up to twice as slow unless the rows are copied a line further apart.
bool rows_collide(std::int64_t row_elems, Dtype type) {
  constexpr std::int64_t colliding_bytes = 1024;
  return row_elems * dtype_bytes(type) % colliding_bytes == 0;
}

// The distance between such rows when they are copied.
std::int64_t apart(std::int64_t row_elems, Dtype type) {
  return row_elems + cache_line_bytes / dtype_bytes(type);
}

Desc rows_of_b(const MatMulShape& s, std::int64_t ld) {
  return Desc({s.k, s.n}, library_type(s.type), dnnl::memory::dims{ld, 1});
}

Desc read_b(const MatMulShape& s) {
  return rows_of_b(s, rows_collide(s.n, s.type) ? apart(s.n, s.type) : s.n);
}

// The stored layout of A, or rows that are farther apart if A is stored [k][m] and C has few
// columns: with more of them the library copies A itself.
Desc read_a(const MatMulShape& s, const Desc& stored) {
  constexpr std::int64_t few_columns = 512;
  if (!s.transpose_a || s.n > few_columns || !rows_collide(s.lda, s.type)) return stored;
  return Desc({s.m, s.k}, library_type(s.type), dnnl::memory::dims{1, apart(s.m, s.type)});
}

// Returns the address of element (row, col) of a matrix as the product sees it.
const void* element(const void* matrix, Dtype type, bool transposed, std::int64_t ld,
                    std::int64_t row, std::int64_t col) {
  const std::int64_t at = transposed ? col * ld + row : row * ld + col;
  return static_cast<const std::byte*>(matrix) + at * dtype_bytes(type);
}

// The implementations that oneDNN offers for one product, best first. oneDNN 2 keeps a pointer to
// the description while it iterates, so both are members.
class Implementations {
 public:
#if DNNL_VERSION_MAJOR >= 3
  Implementations(const dnnl::engine& engine, const Desc& a, const Desc& b, const Desc& bias,
                  const Desc& c, bool with_bias, const dnnl::primitive_attr& attr)
      : pd_(with_bias ? dnnl::matmul::primitive_desc(engine, a, b, bias, c, attr)
                      : dnnl::matmul::primitive_desc(engine, a, b, c, attr)) {}
#else
  Implementations(const dnnl::engine& engine, const Desc& a, const Desc& b, const Desc& bias,
                  const Desc& c, bool with_bias, const dnnl::primitive_attr& attr)
      : desc_(with_bias ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c)),
        pd_(desc_, attr, engine) {}
#endif
  Implementations(const Implementations&) = delete;
  Implementations& operator=(const Implementations&) = delete;

  const dnnl::matmul::primitive_desc& now() const {
    return pd_;
  }
  bool next() {
    return pd_.next_impl();
  }
  // Returns whether the library's name of the current implementation begins with `start`.
  bool named(std::string_view start) const {
    return std::string_view(pd_.impl_info_str()).starts_with(start);
  }
  // Skips the implementations that keep only the sums of one tile, if the product would run on
  // matrix tiles. Only oneDNN 2 was measured.
  void skip_tile_sums() {
#if DNNL_VERSION_MAJOR < 3
    if (!named("brg:avx512_core_amx")) return;
    while (named("brg") && next()) {
    }
#endif
  }

 private:
#if DNNL_VERSION_MAJOR < 3
  dnnl::matmul::desc desc_;
#endif
  dnnl::matmul::primitive_desc pd_;
};

}  // namespace

// A copy of an operand in the layout that a primitive reads.
struct Packing {
  dnnl::reorder reorder;
  dnnl::memory from, to, scratch;
  std::unordered_map<int, dnnl::memory> args;

  Packing(const dnnl::engine& engine, const Desc& stored, const Desc& read) {
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::reorder::primitive_desc pd(engine, stored, engine, read, attr);
    reorder = dnnl::reorder(pd);
    from = dnnl::memory(stored, engine, nullptr);
    to = dnnl::memory(read, engine, nullptr);
    scratch = dnnl::memory(pd.scratchpad_desc(), engine, nullptr);
    args = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}, {DNNL_ARG_SCRATCHPAD, scratch}};
  }
  std::int64_t bytes() const { return round_to_line(size_of(to)); }
  std::int64_t scratch_bytes() const { return size_of(scratch); }

 private:
  static std::int64_t size_of(const dnnl::memory& m) {
    return static_cast<std::int64_t>(m.get_desc().get_size());
  }
};

// A prepared product: the primitives, and memory objects whose pointers are set at each call.
struct Prepared {
  dnnl::matmul product;
  std::optional<Packing> packed_a, packed_b;
  dnnl::memory a, b, bias, c, scratch;
  std::unordered_map<int, dnnl::memory> args;
  std::int64_t scratch_bytes = 0;  // of the primitives, which use it one after the other
  std::int64_t used = 0;           // the number of the call that used it last

  std::int64_t packed_bytes() const {
    return (packed_a ? packed_a->bytes() : 0) + (packed_b ? packed_b->bytes() : 0);
  }
  std::int64_t needed_bytes() const {  // the extra line aligns the caller's scratch
    return cache_line_bytes + packed_bytes() + scratch_bytes;
  }
};

struct MatMul::Impl {
  struct Key {
    MatMulShape shape;
    ProductMethod method;
    auto operator<=>(const Key&) const = default;
  };

  explicit Impl(std::int64_t cap) : cap_bytes(cap) {
    dnnl::set_primitive_cache_capacity(most_prepared);
  }

  Prepared prepare(const Key& key) const;
  Prepared& find(const Key& key, std::int64_t& prepare_ns);
  void forget_oldest();
  void run(Prepared& p, const void* a, const void* b, void* c, const void* bias,
           std::span<std::byte> scratch);

  // A prepared product takes some 50 KB. Where learned routing decides how many rows an expert has,
  // there would be thousands.
  static constexpr int most_prepared = 512;
  std::int64_t cap_bytes;
  std::int64_t calls = 0;
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::map<Key, Prepared> cache;
};

Prepared MatMul::Impl::prepare(const Key& key) const {
  const MatMulShape& s = key.shape;
  const Desc stored_a = describe(s, s.type, s.m, s.k, s.transpose_a, s.lda, s.stride_a);
  const Desc stored_b = describe(s, s.type, s.k, s.n, s.transpose_b, s.ldb, s.stride_b);
  const Desc c = describe(s, s.c_type, s.m, s.n, false, s.ldc, s.stride_c);
  const Desc bias({1, s.n}, library_type(s.type), dnnl::memory::dims{s.n, 1});

  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (s.accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attr.set_post_ops(sum);
  }
  std::optional<Implementations> found;
  if (key.method == ProductMethod::packed) {
    const Desc any({s.k, s.n}, library_type(s.type), dnnl::memory::format_tag::any);
    found.emplace(engine, stored_a, any, bias, c, s.bias, attr);
    if (found->now().weights_desc() == rows_of_b(s, s.n))  // it has no layout of its own
      found.emplace(engine, read_a(s, stored_a), read_b(s), bias, c, s.bias, attr);
  } else {
    found.emplace(engine, stored_a, stored_b, bias, c, s.bias, attr);
  }
  if (key.method == ProductMethod::summed) found->skip_tile_sums();
  std::int64_t least_bytes = 0;
  for (;;) {
    const dnnl::matmul::primitive_desc& pd = found->now();
    const Desc a = pd.src_desc(), b = pd.weights_desc();
    Prepared p;
    if (a != stored_a) p.packed_a.emplace(engine, stored_a, a);
    if (b != stored_b) p.packed_b.emplace(engine, stored_b, b);
    p.scratch_bytes = static_cast<std::int64_t>(pd.scratchpad_desc().get_size());
    for (const auto* packed : {&p.packed_a, &p.packed_b})
      if (*packed) p.scratch_bytes = std::max(p.scratch_bytes, (*packed)->scratch_bytes());
    // The reference implementation is hundreds of times slower, so it never serves to stay below
    // the cap.
    const bool last_resort = least_bytes > 0 && found->named("ref");
    if (p.needed_bytes() > cap_bytes || last_resort) {
      if (!last_resort)
        least_bytes = least_bytes == 0 ? p.needed_bytes() : std::min(least_bytes, p.needed_bytes());
      if (found->next()) continue;
      throw MemoryError(
          fmt::format("{}: {} bytes of scratch: must be at most the cap of {}: raise "
                      "the workspace cap or use fewer threads",
                      to_string(s), least_bytes, cap_bytes));
    }
    const auto memory = [&](const Desc& desc) { return dnnl::memory(desc, engine, nullptr); };
    p.product = dnnl::matmul(pd);
    p.a = memory(a), p.b = memory(b), p.c = memory(c), p.scratch = memory(pd.scratchpad_desc());
    p.args = {{DNNL_ARG_SRC, p.a},
              {DNNL_ARG_WEIGHTS, p.b},
              {DNNL_ARG_DST, p.c},
              {DNNL_ARG_SCRATCHPAD, p.scratch}};
    if (s.bias) {
      p.bias = memory(bias);
      p.args.emplace(DNNL_ARG_BIAS, p.bias);
    }
    return p;
  }
}

Prepared& MatMul::Impl::find(const Key& key, std::int64_t& prepare_ns) {
  auto it = cache.find(key);
  if (it == cache.end()) {
    const auto start = Clock::now();
    if (cache.size() == most_prepared) forget_oldest();
    it = cache.emplace(key, prepare(key)).first;
    prepare_ns += ns_since(start);
  }
  it->second.used = ++calls;
  return it->second;
}

void MatMul::Impl::forget_oldest() {
  cache.erase(std::ranges::min_element(
      cache, [](const auto& a, const auto& b) { return a.second.used < b.second.used; }));
}

void MatMul::Impl::run(Prepared& p, const void* a, const void* b, void* c, const void* bias,
                       std::span<std::byte> scratch) {
  const auto base = reinterpret_cast<std::uintptr_t>(scratch.data());
  std::byte* at =
      scratch.data() + ((base + cache_line_bytes - 1) / cache_line_bytes * cache_line_bytes - base);
  // oneDNN takes pointers to non-const even for operands that it only reads.
  auto set = [](dnnl::memory& m, const void* data) { m.set_data_handle(const_cast<void*>(data)); };
  std::byte* const library_scratch = at + p.packed_bytes();
  const auto packed = [&](std::optional<Packing>& packing, const void* stored) {
    if (!packing) return stored;
    set(packing->from, stored);
    set(packing->to, at);
    set(packing->scratch, library_scratch);
    packing->reorder.execute(stream, packing->args);
    return static_cast<const void*>(std::exchange(at, at + packing->bytes()));
  };
  set(p.a, packed(p.packed_a, a));
  set(p.b, packed(p.packed_b, b));
  set(p.c, c);
  if (p.bias) set(p.bias, bias);
  set(p.scratch, library_scratch);
  p.product.execute(stream, p.args);
  stream.wait();
}

MatMul::MatMul(std::int64_t scratch_cap_bytes, Bf16Products bf16)
    : impl_(std::make_unique<Impl>(scratch_cap_bytes)), bf16_(bf16) {}
MatMul::~MatMul() = default;

std::int64_t MatMul::matmul_ns() const {
  return matmul_ns_;
}

bool MatMul::adds_elsewhere() {
  return false;
}

void MatMul::operator()(const Space& space, const MatMulShape& shape, const void* a, const void* b,
                        void* c, const void* bias, std::span<std::byte> scratch,
                        const void* added) try {
  if (added != nullptr) throw PlanError(to_string(shape) + ": a product on a host adds to C alone");
  ++calls_;
  flops_ += shape.flops();
  if (recording_) recorded_.push_back(shape);
  require_result_type(shape);
  const std::int64_t prepared_ns = prepare_ns_;
  const auto start = Clock::now();
  if (shape.type == Dtype::fp32 || (shape.type == Dtype::bf16 && bf16_ == Bf16Products::native))
    direct(shape, a, b, c, bias, scratch);
  else
    widened(space, shape, a, b, c, bias, scratch);
  const std::int64_t ns = ns_since(start) - (prepare_ns_ - prepared_ns);
  matmul_ns_ += ns;
  if (recording_) recorded_ns_.push_back(ns);
} catch (const dnnl::error& e) {
  if (e.status == dnnl_out_of_memory)
    throw MemoryError(fmt::format("{}: oneDNN is out of memory", to_string(shape)));
  throw PlanError(fmt::format("{}: oneDNN refused the product: {}", to_string(shape), e.what()));
}

// The space is a host space here, so its work is done before a call on it returns.
void MatMul::direct(const MatMulShape& shape, const void* a, const void* b, void* c,
                    const void* bias, std::span<std::byte> scratch) {
  const Pieces piece = pieces_of(shape, impl_->cap_bytes);
  for (std::int64_t m0 = 0; m0 < shape.m; m0 += piece.m)
    for (std::int64_t n0 = 0; n0 < shape.n; n0 += piece.n)
      for (std::int64_t k0 = 0; k0 < shape.k; k0 += piece.k) {
        MatMulShape part = shape;
        part.m = std::min(piece.m, shape.m - m0);
        part.n = std::min(piece.n, shape.n - n0);
        part.k = std::min(piece.k, shape.k - k0);
        part.accumulate = shape.accumulate || k0 > 0;
        part.bias = shape.bias && k0 == 0;
        direct_part(part, piece.method,
                    element(a, shape.type, shape.transpose_a, shape.lda, m0, k0),
                    element(b, shape.type, shape.transpose_b, shape.ldb, k0, n0),
                    const_cast<void*>(element(c, shape.c_type, false, shape.ldc, m0, n0)),
                    part.bias ? element(bias, shape.type, false, 0, 0, n0) : nullptr, scratch);
      }
}

void MatMul::direct_part(const MatMulShape& part, ProductMethod method, const void* a,
                         const void* b, void* c, const void* bias, std::span<std::byte> scratch) {
  Prepared& p = impl_->find({part, method}, prepare_ns_);
  if (p.needed_bytes() > static_cast<std::int64_t>(scratch.size()))
    throw MemoryError(
        fmt::format("{}: needs {} bytes of scratch: the workspace has {}: size it "
                    "with workspace_bytes",
                    to_string(part), p.needed_bytes(), scratch.size()));
  impl_->run(p, a, b, c, bias, scratch);
}

}  // namespace shardmark
