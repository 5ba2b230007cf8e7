// SPDX-License-Identifier: Apache-2.0
// Kernels over parameters, gradients and states, on memory that no cache holds, as a step finds it.
#include <algorithm>
#include <optional>

#include <fmt/core.h>

#include <core/clock.hpp>
#include <core/memory/buffer.hpp>
#include <core/nn/optimizer/adamw.hpp>
#include <core/nn/optimizer/grad_norm.hpp>
#include <core/nn/optimizer/init.hpp>
#include <core/nn/products/matmul.hpp>
#include <miniapp/calibrate/probe.hpp>
#include <miniapp/execute/huge_pages.hpp>

namespace shardmark {
namespace {

constexpr std::int64_t arena_bytes = std::int64_t{384} << 20;

// Gives out memory that was used longest ago.
class Arena {
 public:
  Arena() : buffer_(Tier::device, arena_bytes, "shardmark::device::staging::calibrate") {
    prefer_huge_pages(Tier::device, buffer_.data<std::byte>(), arena_bytes);
  }
  void* take(std::int64_t bytes) {
    constexpr std::int64_t line = 4096;
    bytes = (bytes + line - 1) / line * line;
    if (at_ + bytes > arena_bytes) at_ = 0;
    void* memory = buffer_.data<std::byte>() + at_;
    at_ += bytes;
    return memory;
  }
  void clear(const Context& ctx) { shardmark::clear(ctx, arena_bytes, take(arena_bytes)); }

 private:
  Buffer buffer_;
  std::int64_t at_ = 0;
};

class StateProbe {
 public:
  StateProbe(const Probe& probe)
      : probe_(probe), matmul_(std::int64_t{1} << 20), context_{Space(), matmul_} {
    if (probe.works()) {
      arena_.emplace();
      arena_->clear(context_);
    }
  }

  // Times `body`, which takes its operands from the arena, for some sizes. `bytes_per_elem` limits
  // the largest size to half of the arena.
  template<class Body>
  void time(std::string_view kernel, Dtype dtype, Dtype source, double bytes_per_elem, Body body) {
    for (const std::int64_t elems : sizes_) {
      if (bytes_per_elem * static_cast<double>(elems) > 0.5 * static_cast<double>(arena_bytes))
        continue;
      probe_.world.peers.barrier();
      if (!arena_) continue;
      const int repeats = elems > (1 << 20) ? 3 : 7;
      for (int i = 0; i <= repeats; ++i) {
        const std::int64_t start_ns = monotonic_ns();
        body(elems);
        fence(context_.space, "shardmark::calibrate");
        if (i > 0)
          probe_.samples.add(Stream{.kernel = kernel,
                                    .dtype = dtype,
                                    .source = source,
                                    .elems = static_cast<double>(elems)},
                             probe_.busy_ranks,
                             static_cast<double>(monotonic_ns() - start_ns) * 1e-9);
      }
    }
  }

  void all();

 private:
  Stored take(Dtype dtype, std::int64_t elems) {
    return {dtype, arena_->take(elems * dtype_bytes(dtype))};
  }
  static double size(Dtype d) { return static_cast<double>(dtype_bytes(d)); }
  void one_type(Dtype d);
  void two_types(Dtype to, Dtype from);
  void update(Dtype param, Dtype grad);

  const Probe& probe_;
  MatMul matmul_;
  Context context_;
  std::optional<Arena> arena_;
  std::vector<std::int64_t> sizes_{1 << 10, 1 << 14, 1 << 17, 1 << 20, 3 << 20, 12 << 20, 40 << 20};
};

void StateProbe::one_type(Dtype d) {
  time("divide", d, d, size(d), [&](std::int64_t n) { divide(context_, n, take(d, n), 2.0); });
  time("flag_not_finite", d, d, size(d), [&](std::int64_t n) {
    // The flag is cleared by a kernel of its own, which is not part of the search.
    flag_not_finite(context_, n, take(d, n), static_cast<std::uint8_t*>(arena_->take(8)), false);
  });
  time("sum_squares", d, d, size(d), [&](std::int64_t n) {
    sum_squares(context_, n, take(d, n), static_cast<double*>(arena_->take(8)), true);
  });
  const int rows = 2;
  time("interleave", d, d, 2 * size(d), [&](std::int64_t n) {
    interleave(context_, n, rows, n, take(d, rows * n), take(d, n));
  });
  time("rearrange", d, d, 2 * size(d), [&](std::int64_t n) {
    rearrange(context_, n, rows, n, take(d, n), take(d, rows * n));
  });
  time("state_hash", d, d, size(d),
       [&](std::int64_t n) { static_cast<void>(state_hash(context_, take(d, n), n, 0)); });
}

void StateProbe::two_types(Dtype to, Dtype from) {
  time("convert", to, from, size(to) + size(from),
       [&](std::int64_t n) { convert(context_, n, take(to, n), take(from, n)); });
  time("accumulate", to, from, size(to) + size(from),
       [&](std::int64_t n) { accumulate(context_, n, take(to, n), take(from, n)); });
}

void StateProbe::update(Dtype param, Dtype grad) {
  time("adamw_update", param, grad, 16 + size(grad), [&](std::int64_t n) {
    auto* clip = static_cast<double*>(arena_->take(8));
    std::optional<Stored> rounded;
    if (param != Dtype::fp32) rounded.emplace(take(param, n));
    adamw_update(context_, n, take(Dtype::fp32, n).as<float>(), take(grad, n),
                 take(Dtype::fp32, n).as<float>(), take(Dtype::fp32, n).as<float>(), {}, clip,
                 rounded);
  });
}

void StateProbe::all() {
  constexpr Dtype fp32 = Dtype::fp32, bf16 = Dtype::bf16;
  time("clear", Dtype::uint8, Dtype::uint8, 1,
       [&](std::int64_t n) { clear(context_, n, arena_->take(n)); });
  for (const Dtype d : {fp32, bf16}) one_type(d);
  for (const Dtype to : {fp32, bf16})
    for (const Dtype from : {fp32, bf16}) two_types(to, from);
  for (const Dtype grad : {fp32, bf16}) {
    update(fp32, grad);
    update(bf16, grad);
  }
}

}  // namespace

void probe_states(const Probe& probe) {
  probe.progress("kernels over states");
  StateProbe(probe).all();
}

}  // namespace shardmark
