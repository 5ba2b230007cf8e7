// SPDX-License-Identifier: Apache-2.0
// What the price of a product follows from, whether it is measured, has tiles, or has one
// efficiency.
#pragma once

#include <core/plan/price/machine.hpp>
#include <core/plan/work/work.hpp>

namespace shardmark {

/// A count in an estimate.
constexpr double as_double(std::int64_t n) {
  return static_cast<double>(n);
}

/// The peak of products of a type, in FLOP/s; that of fp32 where no other is known.
inline double peak_of(const DeviceModel& d, Dtype type) {
  return d.peak_flops[type] > 0 ? d.peak_flops[type] : d.peak_flops[Dtype::fp32];
}

/// The part of the peak that the products of one fused attention kernel reach; 0: there is no such
/// kernel.
inline double attention_efficiency_of(const DeviceModel& d, bool backward) {
  return backward && d.attention_backward_efficiency > 0 ? d.attention_backward_efficiency
                                                         : d.attention_efficiency;
}

/// The bytes that a product reads and writes, of all its batch.
inline double operand_bytes(const Product& p) {
  const double m = as_double(p.m), n = as_double(p.n), k = as_double(p.k);
  const double c = as_double(dtype_bytes(p.c_type)) * (p.accumulate ? 2 : 1);
  return as_double(p.batch) * (as_double(dtype_bytes(p.type)) * (m * k + k * n) + c * m * n);
}

}  // namespace shardmark
