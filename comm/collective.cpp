// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <numeric>

#include <fmt/core.h>

#include <comm/collective.hpp>
#include <core/error.hpp>
#include <core/random.hpp>

namespace shardmark {

std::string describe(const Collective& c) {
  return c.name.empty() ? std::string(to_string(c.op))
                        : fmt::format("{} {}", to_string(c.op), c.name);
}

namespace {

template<class Refuse>
void validate_parts(const Collective& c, int rank, int size, const Refuse& refuse) {
  if (c.op != Op::all_to_all) refuse("parts: only those of an all_to_all may differ");
  for (int i = 0; i < 2 * size; ++i)
    if (c.parts[i] < 0 || c.parts[i] > c.elems / size)
      refuse(fmt::format("parts = {}: must be 0 to elems / {} ranks = {}", c.parts[i], size,
                         c.elems / size));
  if (c.parts[rank] != c.parts[size + rank])
    refuse(fmt::format("parts: this rank sends {} elements to itself and receives {}",
                       c.parts[rank], c.parts[size + rank]));
}

std::int64_t sum_of(const std::int64_t* counts, int ranks) {
  return std::accumulate(counts, counts + ranks, std::int64_t{0});
}

Part part_of(const std::int64_t* counts, int rank) {
  return {sum_of(counts, rank), counts[rank]};
}

}  // namespace

void validate(const Collective& c, int rank, int size) {
  const auto refuse = [&](const std::string& what) {
    throw CommError(fmt::format("{}: {}", describe(c), what));
  };
  if (!is_collective(c.op)) refuse("op: must be a collective");
  if (c.op == Op::barrier) return;
  if (c.elems < 0) refuse(fmt::format("elems = {}: must not be negative", c.elems));
  if (has_parts(c.op) && c.elems % size != 0)
    refuse(fmt::format("elems = {}: must divide by the {} ranks: pad the array", c.elems, size));
  const bool rooted = c.op == Op::reduce || c.op == Op::broadcast;
  if (rooted && (c.root < 0 || c.root >= size))
    refuse(fmt::format("root = {}: must be a rank, 0 to {}", c.root, size - 1));
  if (is_reduction(c.op) != (c.reduction != Reduction::none))
    refuse(fmt::format("reduction = {}: must be {}", to_string(c.reduction),
                       is_reduction(c.op) ? "sum, average or max" : "none"));
  if (c.parts != nullptr) validate_parts(c, rank, size, refuse);
  const bool sends = sent_elems(c, rank, size) > 0;
  const bool receives = received_elems(c, rank, size) > 0;
  if ((sends && c.send == nullptr) || (receives && c.recv == nullptr))
    refuse("buffer: null: must hold the elements");
  if (c.op == Op::all_to_all && sends && receives && c.send == c.recv)
    refuse("buffer: sends and receives at one address: must be two arrays");
}

void require_started(Ticket ticket, Ticket last) {
  if (ticket == 0 || ticket > last)
    throw CommError(
        fmt::format("ticket {}: must name a started collective, 1 to {}", ticket, last));
}

std::uint64_t signature_of(const Collective& c, std::uint64_t before) {
  std::uint64_t hash = 0;
  for (const std::uint64_t part :
       {before, static_cast<std::uint64_t>(c.op), static_cast<std::uint64_t>(c.dtype),
        static_cast<std::uint64_t>(c.reduction), static_cast<std::uint64_t>(c.root),
        static_cast<std::uint64_t>(c.elems), static_cast<std::uint64_t>(c.parts != nullptr)})
    hash = splitmix64(hash ^ part);
  return hash;
}

void throw_other_collective(const Collective& c, int rank) {
  throw CommError(fmt::format(
      "{}: rank {} of the group is in another collective: all ranks must start the same "
      "collectives in the same order",
      describe(c), rank));
}

bool in_place(const Collective& c, int rank, int size) {
  if (c.op == Op::all_gather) return c.send == offset(c.recv, rank * (c.elems / size), c.dtype);
  if (c.op == Op::reduce_scatter) return c.recv == offset(c.send, rank * (c.elems / size), c.dtype);
  return c.send == c.recv;
}

std::int64_t received_elems(const Collective& c, int rank, int size) {
  switch (c.op) {
    case Op::reduce_scatter: return c.elems / size;
    case Op::reduce: return c.root == rank ? c.elems : 0;
    case Op::all_to_all:
      if (c.parts != nullptr) return sum_of(c.parts + size, size);
      [[fallthrough]];
    case Op::all_gather:
    case Op::all_reduce:
    case Op::broadcast: return c.elems;
    default: return 0;
  }
}

std::int64_t sent_elems(const Collective& c, int rank, int size) {
  switch (c.op) {
    case Op::all_gather: return c.elems / size;
    case Op::broadcast: return c.root == rank ? c.elems : 0;
    case Op::all_to_all:
      if (c.parts != nullptr) return sum_of(c.parts, size);
      [[fallthrough]];
    case Op::all_reduce:
    case Op::reduce:
    case Op::reduce_scatter: return c.elems;
    default: return 0;
  }
}

Part sent_part(const Collective& c, int rank, int size) {
  if (c.parts != nullptr) return part_of(c.parts, rank);
  return {rank * (c.elems / size), c.elems / size};
}

Part received_part(const Collective& c, int rank, int size) {
  if (c.parts != nullptr) return part_of(c.parts + size, rank);
  return {rank * (c.elems / size), c.elems / size};
}

std::int64_t counted_elems(const Collective& c, int rank, int size) {
  if (c.parts == nullptr) return c.elems;
  return std::max(sent_elems(c, rank, size), received_elems(c, rank, size));
}

void copy_elems(void* to, const void* from, std::int64_t elems, Dtype dtype) {
  if (elems > 0 && to != from)
    std::memmove(to, from, static_cast<std::size_t>(elems * dtype_bytes(dtype)));
}

void copy_whole(const Collective& c, int rank, int size, Moved& moved) {
  const std::int64_t elems = counted_elems(c, rank, size);
  if (c.send != nullptr) copy_elems(c.recv, c.send, elems, c.dtype);
  moved.send(elems, c.dtype);
  moved.receive(elems, c.dtype);
}

}  // namespace shardmark
