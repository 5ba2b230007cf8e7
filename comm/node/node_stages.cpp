// SPDX-License-Identifier: Apache-2.0
// What a rank moves between its own arrays and the window of its node (NodeFlight).
#include <algorithm>

#include <comm/collective.hpp>
#include <comm/node/node_flight.hpp>

namespace shardmark {

std::byte* NodeFlight::buffer(int local, std::uint64_t round) const {
  return static_cast<std::byte*>(group_.window->buffer(local, base_ + round));
}

std::byte* NodeFlight::result(int local, std::uint64_t round) const {
  return buffer(local, round) + group_.limits.most_bytes;
}

void NodeFlight::put(std::byte* to, std::int64_t from, std::int64_t elems) const {
  moved_.send(elems, c_.dtype);
  if (elems > 0) copy_elems(to, offset(c_.send, from, c_.dtype), elems, c_.dtype);
}

void NodeFlight::deliver(std::int64_t to, const void* from, std::int64_t elems) const {
  moved_.receive(elems, c_.dtype);
  copy_elems(offset(c_.recv, to, c_.dtype), from, elems, c_.dtype);
}

void NodeFlight::write() {
  const std::int64_t first = pieces_.first(written_), elems = pieces_.elems(written_);
  const std::int64_t shard_elems = c_.elems / map().size();
  const int own = map().local();
  std::byte* const mine = buffer(own, written_);
  switch (c_.op) {
    case Op::all_gather:
      // This rank's share of the shards of its node is its own shard.
      for_gathered(written_, own, [&](int, int node, const Part& part, std::int64_t at) {
        if (node == map().node())
          put(result(own, written_) + bytes(at), first + part.first - own * elems, part.elems);
      });
      return deliver(map().rank() * shard_elems + first, offset(c_.send, first, c_.dtype), elems);
    case Op::all_to_all:
    case Op::reduce_scatter:
      // The parts of all shards, node by node.
      for (int n = 0; n < map().nodes(); ++n)
        for (int k = 0; k < map().locals(n); ++k) {
          const Part part = sent_part(c_, map().ranks(n)[static_cast<std::size_t>(k)], map().size())
                                .piece(first, elems);
          put(mine + bytes((map().before(n) + k) * elems), part.first, part.elems);
        }
      return;
    case Op::broadcast:
      if (map().rank() != c_.root) return;
      put(mine, first, elems);
      if (c_.recv != nullptr) deliver(first, offset(c_.send, first, c_.dtype), elems);
      return;
    case Op::all_reduce:
    case Op::reduce: {
      const Part share = map().share(own, elems);  // stays where it is
      put(mine, first, share.first);
      moved_.send(share.elems, c_.dtype);
      return put(mine + bytes(share.end()), first + share.end(), elems - share.end());
    }
    default: return;
  }
}

// Delivers elements of an array that holds the parts of the shards of `node`.
void NodeFlight::deliver_shards(std::uint64_t round, int node, Part part,
                                const std::byte* from) const {
  const std::int64_t elems = pieces_.elems(round), shard_elems = c_.elems / map().size();
  while (part.elems > 0) {
    const std::int64_t in_shard = part.first % elems;
    const std::int64_t n = std::min(part.elems, elems - in_shard);
    const int rank = map().ranks(node)[static_cast<std::size_t>(part.first / elems)];
    deliver(rank * shard_elems + pieces_.first(round) + in_shard, from, n);
    part.first += n, part.elems -= n, from += bytes(n);
  }
}

void NodeFlight::read() {
  const std::int64_t first = pieces_.first(read_), elems = pieces_.elems(read_);
  const int own = map().local(), locals = map().locals();
  if (!receives_) return;
  switch (c_.op) {
    case Op::all_gather:
      for (int i = 0; i < locals; ++i) {  // each rank starts at its own buffer
        const int k = (own + i) % locals;
        for_gathered(read_, k, [&](int, int node, const Part& part, std::int64_t at) {
          if (k != own || node != map().node())
            deliver_shards(read_, node, part, result(k, read_) + bytes(at));
        });
      }
      return;
    case Op::broadcast:
      if (map().rank() == c_.root) return;
      if (root_node_ == map().node())
        return deliver(first, buffer(map().local_of(c_.root), read_), elems);
      [[fallthrough]];
    case Op::all_reduce:
    case Op::reduce:
      for (int i = 0; i < locals; ++i) {
        const int k = (own + i) % locals;
        const Part share = map().share(k, elems);
        deliver(first + share.first, result(k, read_), share.elems);
      }
      return;
    default: return;
  }
}

}  // namespace shardmark
