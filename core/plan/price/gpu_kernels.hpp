// SPDX-License-Identifier: Apache-2.0
// How long kernels take on a GPU that nobody has measured, from what the device is: products as
// waves of tiles over its multiprocessors, attention by its scores, other kernels by their bytes.
// What the software does decides which kernels there are (Software in machine.hpp).
#pragma once

#include <core/plan/price/machine.hpp>
#include <core/plan/work/work.hpp>

namespace shardmark {

/// Whether products and attention of this device are priced as below.
inline bool has_tiles(const DeviceModel& device) {
  return device.multiprocessors > 0;
}

/// Seconds of one product, all of its batch included. Each multiprocessor computes one tile at a
/// time, so a product takes whole waves of tiles. A tile takes the time of its inner dimension and
/// of `product_fill_depth` more columns. Where few tiles fill a wave, smaller tiles or parts of the
/// inner dimension may be faster, and the fastest is taken, as libraries do. No product is faster
/// than its operands and result move through memory at `stream_efficiency`.
double tiled_product_s(const DeviceModel& device, const Product& product);

/// Seconds of a product as the software computes it: in fp8 where that is faster, with the time to
/// convert the operands.
double software_product_s(const Machine& machine, const Product& product);

/// Seconds of the attention of one event, as the software computes it.
double attention_s(const Machine& machine, const AttentionWork& attention);

/// The kernels that the software launches for it.
double attention_launches(const Software& software, const AttentionWork& attention);

/// The kernels that the software launches for one of the plan's kernels, or for all `count`
/// products.
double launches_of(const Software& software, const Stream& stream);
double launches_of(const Software& software, const Product& product);

/// The bytes that eager software moves to add one such product, a weight's gradient, to that of the
/// micro-batches before.
double adding_bytes(const Software& software, const Product& product);

/// The bytes that a kernel between products moves in this software, relative to Stream::bytes.
double traffic_of(const Software& software, const Stream& stream);

}  // namespace shardmark
