// SPDX-License-Identifier: Apache-2.0
#include <comm/collective.hpp>
#include <comm/node/node_flight.hpp>

namespace shardmark {

std::int64_t NodeGroup::result_bytes(const NodeMap& map, const PieceLimits& limits) {
  // A rank's part of each node's shards, each rounded up to an element.
  return limits.most_bytes / map.locals() + std::int64_t{8} * (map.nodes() + 1);
}

NodeFlight::NodeFlight(const Collective& c, const NodePieces& pieces, NodeGroup& group,
                       Moved& moved)
    : c_(c),
      pieces_(pieces),
      group_(group),
      moved_(moved),
      receives_(c.op != Op::reduce || c.root == group.map.rank()) {
  if (c.op == Op::barrier) c_.elems = 0;
  if (c.op == Op::reduce || c.op == Op::broadcast) root_node_ = map().node_of(c.root);
}

void NodeFlight::begin() {
  base_ = group_.window->reserve_rounds(pieces_.rounds);
  if (pieces_.rounds == 0) copy_whole(c_, map().rank(), map().size(), moved_);
}

// What MPI has finished comes first, so that the links have work; then the latest stage, which
// frees buffers.
bool NodeFlight::advance() {
  ShmWindow& window = *group_.window;
  if (finished_ < turned_ && complete(finished_, true)) {
    window.publish(Stage::reduced, base_ + ++finished_);
  } else if (turned_ < started_ && complete(turned_, false)) {
    turn_exchange(turned_++);
  } else if (may_exchange()) {
    if (started_ == 0) check_signatures();
    start_exchange(started_++);
  } else if (may_read()) {
    read();
    window.publish(Stage::read, base_ + ++read_);
  } else if (may_write()) {
    if (written_ == 0) window.notice(window.rank(), base_).signature = signature_of(c_, base_);
    write();
    window.publish(Stage::written, base_ + ++written_);
  } else {
    return false;
  }
  return true;
}

bool NodeFlight::may_write() const {
  return written_ != pieces_.rounds && written_ != read_ + group_.window->buffers() &&
         group_.window->free_for(base_ + written_);
}

bool NodeFlight::may_exchange() const {
  if (started_ == written_) return false;
  const std::uint64_t round = base_ + started_ + 1;
  if (c_.op == Op::all_gather) return true;  // sends only what this rank wrote
  if (c_.op == Op::broadcast)
    return root_node_ != map().node() ||
           group_.window->reached(Stage::written, round, map().local_of(c_.root));
  return group_.window->all_reached(Stage::written, round);
}

bool NodeFlight::may_read() const {
  if (read_ == finished_) return false;
  if (scatters() || !receives_) return true;
  if (c_.op == Op::broadcast && root_node_ == map().node()) return true;
  return group_.window->all_reached(Stage::reduced, base_ + read_ + 1);
}

void NodeFlight::check_signatures() const {
  const std::uint64_t own = signature_of(c_, base_);
  for (int k = 0; k < map().locals(); ++k)
    if (group_.window->reached(Stage::written, base_ + 1, k) &&
        group_.window->notice(k, base_).signature != own)
      throw_other_collective(c_, map().ranks(map().node())[static_cast<std::size_t>(k)]);
}

}  // namespace shardmark
