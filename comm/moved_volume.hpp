// SPDX-License-Identifier: Apache-2.0
// What collectives take out of this rank's send buffers and put into its receive buffers. A
// back-end counts it where it moves the data, beneath the counters of calls, so that a piece that
// is left out shows even if its call was made.
#pragma once

#include <cstdint>
#include <map>

#include <core/plan/deck/types.hpp>

namespace shardmark {

/// What one kind of collective has moved on one rank.
struct Moved {
  std::int64_t sent_elems = 0, sent_bytes = 0, received_elems = 0, received_bytes = 0;
  bool operator==(const Moved&) const = default;
  void send(std::int64_t elems, Dtype dtype) {
    sent_elems += elems;
    sent_bytes += elems * dtype_bytes(dtype);
  }
  void receive(std::int64_t elems, Dtype dtype) {
    received_elems += elems;
    received_bytes += elems * dtype_bytes(dtype);
  }
  void add(const Moved& other) {
    sent_elems += other.sent_elems, sent_bytes += other.sent_bytes;
    received_elems += other.received_elems, received_bytes += other.received_bytes;
  }
  /// Returns what was moved since `other`, an earlier state of the same counters.
  Moved since(const Moved& other) const {
    return {sent_elems - other.sent_elems, sent_bytes - other.sent_bytes,
            received_elems - other.received_elems, received_bytes - other.received_bytes};
  }
};

/// By operation; barriers move nothing and are absent.
using MovedVolume = std::map<Op, Moved>;

}  // namespace shardmark
