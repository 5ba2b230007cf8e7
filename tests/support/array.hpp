// SPDX-License-Identifier: Apache-2.0
// An array of any dtype that tests fill and read as doubles, and scratch of the size that a
// collective requires.
#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

#include <comm/communicator.hpp>
#include <comm/mpi/mpi_calls.hpp>
#include <core/numeric/half.hpp>

namespace shardmark::test {

class Array {
 public:
  Array(Dtype dtype, std::int64_t elems)
      : dtype_(dtype), bytes_(static_cast<std::size_t>(elems * dtype_bytes(dtype)) + 1) {}
  std::int64_t elems() const {
    return static_cast<std::int64_t>(bytes_.size() - 1) / dtype_bytes(dtype_);
  }
  void* at(std::int64_t i) { return bytes_.data() + i * dtype_bytes(dtype_); }
  const void* at(std::int64_t i) const { return bytes_.data() + i * dtype_bytes(dtype_); }
  void set(std::int64_t i, double v) {
    switch (dtype_) {
      case Dtype::fp32: return put(i, static_cast<float>(v));
      case Dtype::fp64: return put(i, v);
      case Dtype::bf16: return put(i, round_bf16(static_cast<float>(v)));
      case Dtype::fp16: return put(i, round_fp16(static_cast<float>(v)));
      case Dtype::int8: return put(i, static_cast<std::int8_t>(v));
      case Dtype::uint8: return put(i, static_cast<std::uint8_t>(v));
      case Dtype::int32: return put(i, static_cast<std::int32_t>(v));
      case Dtype::int64: return put(i, static_cast<std::int64_t>(v));
    }
  }
  double get(std::int64_t i) const {
    switch (dtype_) {
      case Dtype::fp32: return take<float>(i);
      case Dtype::fp64: return take<double>(i);
      case Dtype::bf16: return widen(take<Bf16>(i));
      case Dtype::fp16: return widen(take<Fp16>(i));
      case Dtype::int8: return take<std::int8_t>(i);
      case Dtype::uint8: return take<std::uint8_t>(i);
      case Dtype::int32: return take<std::int32_t>(i);
      case Dtype::int64: return static_cast<double>(take<std::int64_t>(i));
    }
    return 0;
  }
  bool operator==(const Array&) const = default;

 private:
  template<class T>
  void put(std::int64_t i, T v) {
    std::memcpy(at(i), &v, sizeof v);
  }
  template<class T>
  T take(std::int64_t i) const {
    T v;
    std::memcpy(&v, at(i), sizeof v);
    return v;
  }

  Dtype dtype_;
  std::vector<std::byte> bytes_;  // one byte more, so that an empty array still has an address
};

/// Allocates exactly the scratch that `c` requires under `options`, and sets it in `c`.
inline std::vector<std::byte> bring_scratch(Collective& c, int size, const CommOptions& options) {
  c.scratch_bytes =
      collective_scratch_bytes(c.op, c.dtype, c.elems, size, options.reductions,
                               options.mpi.staging_cap_bytes, options.mpi.piece_bytes);
  std::vector<std::byte> scratch(static_cast<std::size_t>(c.scratch_bytes));
  c.scratch = scratch.data();
  return scratch;
}

inline constexpr Dtype all_dtypes[] = {Dtype::fp32,  Dtype::bf16,  Dtype::fp16,  Dtype::fp64,
                                       Dtype::uint8, Dtype::int32, Dtype::int64, Dtype::int8};

}  // namespace shardmark::test
