// SPDX-License-Identifier: Apache-2.0
// The exchange of a piece between the nodes (NodeFlight): the MPI calls and the sums. Every call
// moves bytes, because all sums are ours: MPI has none for 16-bit types, and its order may depend
// on the number of bytes.
#include <cstring>

#include <comm/collective.hpp>
#include <comm/local_reduction.hpp>
#include <comm/mpi/mpi_check.hpp>
#include <comm/node/node_flight.hpp>

namespace shardmark {
namespace {

int to_count(std::int64_t bytes) {
  return static_cast<int>(bytes);  // pieces are far below 2 GiB
}

}  // namespace

// Tests the calls of the first or second step.
bool NodeFlight::complete(std::uint64_t round, bool second) {
  auto& requests = second ? memory(round).second : memory(round).first;
  int done = 1;
  if (!requests.empty())
    SHARDMARK_MPI(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done,
                              MPI_STATUSES_IGNORE));
  return done != 0;
}

void NodeFlight::start_exchange(std::uint64_t round) {
  PieceMemory& piece = memory(round);
  piece.transfers.resize(group_.rails.size());
  piece.first.assign(group_.rails.size(), MPI_REQUEST_NULL);
  piece.second.assign(group_.rails.size(), MPI_REQUEST_NULL);
  switch (c_.op) {
    case Op::all_gather: return gather(round);
    case Op::broadcast: return broadcast(round);
    case Op::barrier:
      // All ranks of the node have come, so one of them speaks for them.
      if (map().nodes() > 1 && map().local() == 0)
        SHARDMARK_MPI(MPI_Ibarrier(group_.rails.front().first.get(), piece.first.data()));
      return;
    default: return start_sums(round);
  }
}

void NodeFlight::turn_exchange(std::uint64_t round) {
  if (!is_reduction(c_.op) && c_.op != Op::all_to_all) return;
  for (std::size_t i = 0; i < group_.rails.size(); ++i) {
    if (c_.op == Op::all_to_all) {
      hand_out(round, i);
      continue;
    }
    if (c_.op != Op::reduce || pieces_.two_steps || map().node() == root_node_) add_up(round, i);
    if (pieces_.two_steps) spread(round, i);
  }
}

void NodeFlight::gather(std::uint64_t round) {
  PieceMemory& piece = memory(round);
  for (auto& transfer : piece.transfers) transfer.recv_bytes.clear(), transfer.recv_to.clear();
  const int first_rail = group_.rails.front().number;
  for_gathered(round, map().local(), [&](int rail, int, const Part& part, std::int64_t at) {
    auto& transfer = piece.transfers[static_cast<std::size_t>(rail - first_rail)];
    transfer.recv_bytes.push_back(to_count(bytes(part.elems)));
    transfer.recv_to.push_back(to_count(bytes(at)));
  });
  if (map().nodes() == 1) return;
  for (std::size_t i = 0; i < group_.rails.size(); ++i)
    SHARDMARK_MPI(MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_BYTE, result(map().local(), round),
                                  piece.transfers[i].recv_bytes.data(),
                                  piece.transfers[i].recv_to.data(), MPI_BYTE,
                                  group_.rails[i].first.get(), &piece.first[i]));
}

void NodeFlight::broadcast(std::uint64_t round) {
  if (map().nodes() == 1) return;
  const std::int64_t elems = pieces_.elems(round);
  const Part share = map().share(map().local(), elems);
  for (std::size_t i = 0; i < group_.rails.size(); ++i) {
    const Part part = map().rail(group_.rails[i].number, elems);
    std::byte* const at = map().node() == root_node_
                              ? buffer(map().local_of(c_.root), round) + bytes(part.first)
                              : result(map().local(), round) + bytes(part.first - share.first);
    SHARDMARK_MPI(MPI_Ibcast(at, to_count(bytes(part.elems)), MPI_BYTE, root_node_,
                             group_.rails[i].first.get(), &memory(round).first[i]));
  }
}

// The elements of a piece whose sum `node` computes on this rail; all nodes compute the same one if
// the sums are not divided among them.
Part NodeFlight::part_of(std::uint64_t round, int rail, int node) const {
  const std::int64_t elems = pieces_.elems(round);
  if (scatters()) {
    const Part part = map().rail(rail, map().locals(node) * elems);
    return {map().before(node) * elems + part.first, part.elems};
  }
  const Part whole = map().rail(rail, elems);
  if (!pieces_.two_steps) return whole;
  const std::int64_t from = whole.elems * node / map().nodes();
  return {whole.first + from, whole.elems * (node + 1) / map().nodes() - from};
}

// What rank `local` of this node contributes from element `at` of the piece on.
const void* NodeFlight::contribution(int local, std::uint64_t round, std::int64_t at) const {
  if (local == map().local() && !scatters())
    return offset(c_.send, pieces_.first(round) + at, c_.dtype);
  return buffer(local, round) + bytes(at);
}

// Writes what this node contributes to `part`: a row for each of its ranks, or their sum.
void NodeFlight::fill_rows(std::byte* to, std::uint64_t round, const Part& part) {
  if (part.elems == 0) return;
  rows_.clear();
  for (int k = 0; k < map().locals(); ++k) rows_.push_back(contribution(k, round, part.first));
  if (!pieces_.rows_of_ranks)
    return combine_in_rank_order(c_.dtype,
                                 c_.reduction == Reduction::max ? Reduction::max : Reduction::sum,
                                 rows_.data(), map().locals(), to, part.elems);
  for (const void* row : rows_) {
    std::memcpy(to, row, static_cast<std::size_t>(bytes(part.elems)));
    to += bytes(part.elems);
  }
}

void NodeFlight::start_sums(std::uint64_t round) {
  lay_out_sums(round);
  for (std::size_t i = 0; i < group_.rails.size(); ++i) send_sums(round, i);
}

// The inbox has a block of each node for each rail, the outbox one for each other node.
void NodeFlight::lay_out_sums(std::uint64_t round) {
  PieceMemory& piece = memory(round);
  const auto nodes = static_cast<std::size_t>(map().nodes());
  std::int64_t in = 0, out = 0;
  for (std::size_t i = 0; i < group_.rails.size(); ++i) {
    PieceMemory::Transfer& t = piece.transfers[i];
    for (auto* list : {&t.send_bytes, &t.send_from, &t.recv_bytes, &t.recv_to})
      list->assign(nodes, 0);
    const int rail = group_.rails[i].number;
    const std::int64_t mine = bytes(part_of(round, rail, map().node()).elems);
    for (int n = 0; n < map().nodes(); ++n) {
      const auto at = static_cast<std::size_t>(n);
      t.recv_to[at] = to_count(in), t.send_from[at] = to_count(out);
      t.recv_bytes[at] = to_count(rows(n) * mine);
      in += rows(n) * mine;
      if (!to_one_node() || n == map().node()) continue;
      t.send_bytes[at] = to_count(rows(map().node()) * bytes(part_of(round, rail, n).elems));
      out += t.send_bytes[at];
    }
  }
  if (std::ssize(piece.inbox) < in) piece.inbox.resize(static_cast<std::size_t>(in));
  if (std::ssize(piece.outbox) < out) piece.outbox.resize(static_cast<std::size_t>(out));
}

void NodeFlight::send_sums(std::uint64_t round, std::size_t i) {
  PieceMemory& piece = memory(round);
  PieceMemory::Transfer& t = piece.transfers[i];
  const int rail = group_.rails[i].number, node = map().node();
  const auto here = static_cast<std::size_t>(node);
  std::byte* const own = piece.inbox.data() + t.recv_to[here];
  fill_rows(own, round, part_of(round, rail, node));
  if (map().nodes() == 1) return;
  const MPI_Comm comm = group_.rails[i].first.get();
  if (to_one_node()) {
    for (int n = 0; n < map().nodes(); ++n)
      if (n != node)
        fill_rows(piece.outbox.data() + t.send_from[static_cast<std::size_t>(n)], round,
                  part_of(round, rail, n));
    t.recv_bytes[here] = 0;  // it is there already
    SHARDMARK_MPI(MPI_Ialltoallv(piece.outbox.data(), t.send_bytes.data(), t.send_from.data(),
                                 MPI_BYTE, piece.inbox.data(), t.recv_bytes.data(),
                                 t.recv_to.data(), MPI_BYTE, comm, &piece.first[i]));
  } else if (c_.op == Op::all_reduce) {
    SHARDMARK_MPI(MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_BYTE, piece.inbox.data(),
                                  t.recv_bytes.data(), t.recv_to.data(), MPI_BYTE, comm,
                                  &piece.first[i]));
  } else {
    const void* const from = node == root_node_ ? MPI_IN_PLACE : own;
    SHARDMARK_MPI(MPI_Igatherv(from, t.recv_bytes[here], MPI_BYTE, piece.inbox.data(),
                               t.recv_bytes.data(), t.recv_to.data(), MPI_BYTE, root_node_, comm,
                               &piece.first[i]));
  }
}

// What rank `local` of `node` has sent on a rail, or the sum of that node.
const std::byte* NodeFlight::row(std::uint64_t round, std::size_t i, int node, int local) const {
  const PieceMemory& piece = memory(round);
  const Part part = part_of(round, group_.rails[i].number, map().node());
  return piece.inbox.data() + piece.transfers[i].recv_to[static_cast<std::size_t>(node)] +
         local * bytes(part.elems);
}

// Delivers what all ranks have sent to this one. Where parts differ, the nodes exchange as much for
// each pair of ranks as for the largest one.
void NodeFlight::hand_out(std::uint64_t round, std::size_t i) {
  const Part part = part_of(round, group_.rails[i].number, map().node());
  const std::int64_t before = (map().before(map().node()) + map().local()) * pieces_.elems(round);
  for (int r = 0; r < map().size(); ++r) {
    const Part into = received_part(c_, r, map().size())
                          .piece(pieces_.first(round) + part.first - before, part.elems);
    deliver(into.first, row(round, i, map().node_of(r), map().local_of(r)), into.elems);
  }
}

// Adds up what the nodes have sent: rows of ranks in rank order, or the sums of the nodes in
// theirs.
void NodeFlight::add_up(std::uint64_t round, std::size_t i) {
  const Part part = part_of(round, group_.rails[i].number, map().node());
  if (part.elems == 0) return;
  rows_.clear();
  if (pieces_.rows_of_ranks)
    for (int r = 0; r < map().size(); ++r)
      rows_.push_back(row(round, i, map().node_of(r), map().local_of(r)));
  else
    for (int n = 0; n < map().nodes(); ++n) rows_.push_back(row(round, i, n, 0));

  void* out = nullptr;
  const std::int64_t elems = pieces_.elems(round);
  const int own = map().local();
  if (c_.op == Op::reduce_scatter) {
    const std::int64_t before = (map().before(map().node()) + own) * elems;
    out = offset(c_.recv, pieces_.first(round) + part.first - before, c_.dtype);
    moved_.receive(part.elems, c_.dtype);
  } else {
    out = result(own, round) + bytes(part.first - map().share(own, elems).first);
  }
  const bool divides = c_.reduction == Reduction::average && !pieces_.rows_of_ranks;
  combine_in_rank_order(c_.dtype, divides ? Reduction::sum : c_.reduction, rows_.data(),
                        static_cast<int>(rows_.size()), out, part.elems);
  if (divides) divide(c_.dtype, out, part.elems, map().size());
}

// The second step: each node sends the sums that it has computed to the nodes that need them.
void NodeFlight::spread(std::uint64_t round, std::size_t i) {
  PieceMemory& piece = memory(round);
  PieceMemory::Transfer& t = piece.transfers[i];
  const int rail = group_.rails[i].number, node = map().node();
  const std::int64_t first = map().share(map().local(), pieces_.elems(round)).first;
  for (int n = 0; n < map().nodes(); ++n) {
    const Part part = part_of(round, rail, n);
    t.recv_bytes[static_cast<std::size_t>(n)] = to_count(bytes(part.elems));
    t.recv_to[static_cast<std::size_t>(n)] = to_count(bytes(part.first - first));
  }
  std::byte* const sums = result(map().local(), round);
  const auto here = static_cast<std::size_t>(node);
  const MPI_Comm comm = group_.rails[i].second.get();
  if (c_.op == Op::all_reduce)
    SHARDMARK_MPI(MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_BYTE, sums, t.recv_bytes.data(),
                                  t.recv_to.data(), MPI_BYTE, comm, &piece.second[i]));
  else
    SHARDMARK_MPI(MPI_Igatherv(node == root_node_ ? MPI_IN_PLACE : sums + t.recv_to[here],
                               t.recv_bytes[here], MPI_BYTE, sums, t.recv_bytes.data(),
                               t.recv_to.data(), MPI_BYTE, root_node_, comm, &piece.second[i]));
}

}  // namespace shardmark
