// SPDX-License-Identifier: Apache-2.0
// Checks that every back-end makes before it starts a collective, and properties of a collective
// that several back-ends need. All functions are pure.
#pragma once

#include <string>

#include <comm/communicator.hpp>

namespace shardmark {

/// Throws CommError when `c` is not valid for this rank of a group of `size`: negative or
/// indivisible counts, a root out of range, a missing or superfluous reduction, a null buffer.
void validate(const Collective& c, int rank, int size);

/// Throws CommError unless `ticket` names one of the collectives 1 to `last`.
void require_started(Ticket ticket, Ticket last);

/// Whether the send and receive buffers of rank `rank` overlap in the way that Collective allows.
bool in_place(const Collective& c, int rank, int size);

/// A text for messages: "all_reduce grad.block3".
std::string describe(const Collective& c);

/// The elements that rank `rank` receives: S/size for reduce_scatter, 0 for a reduce to another
/// root, and S otherwise.
std::int64_t received_elems(const Collective& c, int rank, int size);

/// A hash of everything about `c` that must be the same on all ranks, and of `before`, the rounds
/// of earlier collectives.
std::uint64_t signature_of(const Collective& c, std::uint64_t before);

/// Throws the CommError of a rank that has found `rank` of its group in another collective than
/// `c`.
[[noreturn]] void throw_other_collective(const Collective& c, int rank);

/// The address `elems` elements of `dtype` behind `base`.
inline void* offset(void* base, std::int64_t elems, Dtype dtype) {
  return static_cast<char*>(base) + elems * dtype_bytes(dtype);
}
inline const void* offset(const void* base, std::int64_t elems, Dtype dtype) {
  return static_cast<const char*>(base) + elems * dtype_bytes(dtype);
}

}  // namespace shardmark
