// SPDX-License-Identifier: Apache-2.0
// What every back-end asks of a collective before it starts, and small facts about one.
#pragma once

#include <string>

#include <comm/communicator.hpp>

namespace shardmark {

/// Throws CommError when `c` makes no sense for this rank of `size`: negative or indivisible
/// counts, a root out of range, a reduction that is missing, no buffer.
void validate(const Collective& c, int rank, int size);

/// Whether rank `rank`'s send and receive overlap as the contract of Collective says.
bool in_place(const Collective& c, int rank, int size);

/// "all_reduce grad.block3".
std::string describe(const Collective& c);

/// Elements that this rank receives: 0 for a reduce elsewhere, S/size for reduce_scatter, else S.
std::int64_t received_elems(const Collective& c, int rank, int size);

/// `base` plus `elems` elements of `dtype`.
inline void* offset(void* base, std::int64_t elems, Dtype dtype) {
  return static_cast<char*>(base) + elems * dtype_bytes(dtype);
}
inline const void* offset(const void* base, std::int64_t elems, Dtype dtype) {
  return static_cast<const char*>(base) + elems * dtype_bytes(dtype);
}

}  // namespace shardmark
