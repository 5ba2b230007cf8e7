// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <comm/collective.hpp>
#include <core/error.hpp>
#include <core/random.hpp>

namespace shardmark {

std::string describe(const Collective& c) {
  return c.name.empty() ? std::string(to_string(c.op))
                        : fmt::format("{} {}", to_string(c.op), c.name);
}

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
  const bool sends = c.op != Op::broadcast || c.root == rank;
  const bool receives = c.op != Op::reduce || c.root == rank;
  if (c.elems > 0 && ((sends && c.send == nullptr) || (receives && c.recv == nullptr)))
    refuse("buffer: null: must hold the elements");
  if (c.op == Op::all_to_all && c.elems > 0 && c.send == c.recv)
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
        static_cast<std::uint64_t>(c.elems)})
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
    case Op::all_gather:
    case Op::all_reduce:
    case Op::all_to_all:
    case Op::broadcast: return c.elems;
    default: return 0;
  }
}

}  // namespace shardmark
