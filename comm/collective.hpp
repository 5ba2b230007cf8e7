// SPDX-License-Identifier: Apache-2.0
// Checks that every back-end makes before it starts a collective, and properties of a collective
// that several back-ends need. All functions are pure.
#pragma once

#include <algorithm>
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
/// root, the sum of its parts for an all_to_all, and S otherwise.
std::int64_t received_elems(const Collective& c, int rank, int size);

/// The same for what it sends: S/size for all_gather, 0 for a broadcast from another root.
std::int64_t sent_elems(const Collective& c, int rank, int size);

/// Elements of a buffer.
struct Part {
  std::int64_t first = 0, elems = 0;
  std::int64_t end() const { return first + elems; }
  /// What lies in piece [at, at + most) of the part; possibly nothing.
  Part piece(std::int64_t at, std::int64_t most) const {
    return {first + at, std::clamp<std::int64_t>(elems - at, 0, most)};
  }
};
/// What this rank of an all_to_all sends to `rank`, and where it receives what `rank` sends.
Part sent_part(const Collective& c, int rank, int size);
Part received_part(const Collective& c, int rank, int size);

/// What counters count of `c`: S, or with parts the larger one of what this rank sends and
/// receives.
std::int64_t counted_elems(const Collective& c, int rank, int size);

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

/// Copies elements, unless they are there already. The memories may overlap.
void copy_elems(void* to, const void* from, std::int64_t elems, Dtype dtype);
/// Does what `c` does on a rank that needs no other, and counts it: copies what it sends to where
/// it receives, if it has both.
void copy_whole(const Collective& c, int rank, int size, Moved& moved);

}  // namespace shardmark
