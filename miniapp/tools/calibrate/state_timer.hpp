// SPDX-License-Identifier: Apache-2.0
// Times kernels on memory that no cache holds, as a step finds it.
#pragma once

#include <algorithm>
#include <optional>
#include <string_view>

#include <core/clock.hpp>
#include <core/memory/buffer.hpp>
#include <core/nn/kernels/storage.hpp>
#include <core/nn/products/matmul.hpp>
#include <miniapp/tools/calibrate/cold_memory.hpp>
#include <miniapp/tools/calibrate/probe.hpp>

namespace shardmark {

/// Launches kernels for some sizes on memory that was used longest ago, and keeps the times.
class StateTimer {
 public:
  /// Collective. `probe` must outlive it. No size has more than `most_elems` elements, before it is
  /// rounded up.
  explicit StateTimer(const Probe& probe, std::int64_t most_elems = std::int64_t{40} << 20);

  /// Collective. Times `body(elems)`, which takes its operands from this object, for some sizes,
  /// rounded up to multiples of `unit`. `bytes_per_elem` limits the largest one to half of the
  /// memory. Each call times a size once or twice: calls that lie apart in time average over what
  /// other programs take from the memory's bandwidth in the meantime.
  template<class Body>
  void time(std::string_view kernel, Dtype dtype, Dtype source, double bytes_per_elem, Body body,
            std::int64_t unit = 1);

  /// Collective. Times `copy(first, elems)` over all that `update(elems)` has just written, one
  /// after another as a step does with the parameters, for some sizes of the copy. The update
  /// leaves what it wrote last in the caches.
  template<class Update, class Copy>
  void time_after_update(Stream stream, Update update, Copy copy);

  /// Elements that no cache holds, with values if the type has 16 or 32 bits.
  template<class T>
  T* take_as(std::int64_t elems) {
    return static_cast<T*>(take(sizeof(T), elems));
  }
  Stored take(Dtype dtype, std::int64_t elems) {
    return {dtype, take(static_cast<std::size_t>(dtype_bytes(dtype)), elems)};
  }
  /// The number 1, as a coefficient that kernels read.
  const double* one() const { return one_->data<double>(); }
  const Context& context() const { return context_; }

 private:
  // Collective over the ranks that work.
  void keep(const Stream& stream, double seconds) const {
    for (const double s : probe_.times_of_all({seconds}))
      probe_.samples.add(stream, probe_.busy_ranks, s);
  }
  void* take(std::size_t elem_bytes, std::int64_t elems);
  template<class Body>
  double seconds_of(Body body) const {
    const std::int64_t start_ns = monotonic_ns();
    body();
    fence(context_.space, "shardmark::calibrate");
    return static_cast<double>(monotonic_ns() - start_ns) * 1e-9;
  }

  static constexpr std::int64_t words_bytes = std::int64_t{384} << 20;
  static constexpr std::int64_t sizes[] = {1 << 10, 1 << 14,  1 << 17, 1 << 20,
                                           3 << 20, 12 << 20, 40 << 20};

  const Probe& probe_;
  std::int64_t most_elems_;
  MatMul matmul_;
  Context context_;
  // By the size of their elements, on ranks that work; one type's bits are odd values of another.
  std::optional<ColdMemory> words_, halves_, bytes_;
  std::optional<Buffer> one_;
};

template<class Body>
void StateTimer::time(std::string_view kernel, Dtype dtype, Dtype source, double bytes_per_elem,
                      Body body, std::int64_t unit) {
  probe_.look();
  for (const std::int64_t size : sizes) {
    if (size > most_elems_) break;
    const std::int64_t elems = (size + unit - 1) / unit * unit;
    if (bytes_per_elem * static_cast<double>(elems) > 0.5 * static_cast<double>(words_bytes))
      continue;
    probe_.world.peers.barrier();
    if (!words_) continue;
    // The first run brings the code into a cache. It also leaves as much in the cache that is still
    // to be written to memory as the timed run does, which pays for that of the run before.
    constexpr std::int64_t fills_a_cache = 3 << 20;
    const int runs = elems > (1 << 20) ? 1 : 2;
    for (int i = -1; i < runs; ++i) {
      probe_.meet();
      const double seconds = seconds_of(
          [&] { body(i < 0 ? std::min(elems, (fills_a_cache + unit - 1) / unit * unit) : elems); });
      if (i >= 0)
        keep({.kernel = kernel,
              .dtype = dtype,
              .source = source,
              .elems = static_cast<double>(elems)},
             seconds);
    }
  }
}

template<class Update, class Copy>
void StateTimer::time_after_update(Stream stream, Update update, Copy copy) {
  constexpr std::int64_t updated = 3 << 20, largest = 12 << 20;
  probe_.look();
  for (const std::int64_t size : sizes) {
    if (size > std::min(most_elems_, largest)) break;
    probe_.world.peers.barrier();
    if (!words_) continue;
    const std::int64_t copies = std::max<std::int64_t>(1, updated / size);
    probe_.meet();
    update(copies * size);
    const double seconds = seconds_of([&] {
      for (std::int64_t i = 0; i < copies; ++i) copy(i * size, size);
    });
    stream.elems = static_cast<double>(size);
    keep(stream, seconds / static_cast<double>(copies));
  }
}

/// Conversions and sums from one type to another. Collective.
void time_two_types(StateTimer& timer, Dtype to, Dtype from);

}  // namespace shardmark
