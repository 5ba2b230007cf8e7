// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/core.h>

#include <comm/collective.hpp>
#include <comm/mpi/mpi_communicator.hpp>
#include <comm/mpi/node.hpp>
#include <comm/node/node_communicator.hpp>
#include <comm/shm/shm_communicator.hpp>
#include <core/error.hpp>

namespace shardmark {
namespace {

NodeMap map_of(MPI_Comm comm, const NodeOptions& options) {
  return {nodes_of_ranks(comm, options.part), comm_rank(comm)};
}

PieceLimits limits_of(const NodeMap& map, const NodeOptions& options) {
  // There is room for one element of each rank, whatever its type.
  const std::int64_t most = std::max(options.most_piece_bytes, std::int64_t{8} * map.size());
  return {most, std::min(options.least_piece_bytes, most)};
}

}  // namespace

NodeCommunicator::NodeCommunicator(OwnedComm comm, const CommOptions& options, NodeMap map)
    : QueuedCommunicator(std::move(comm), options),
      group_{std::move(map), {}, nullptr, limits_of(map, options.node), {}} {}

std::unique_ptr<NodeCommunicator> NodeCommunicator::make(MPI_Comm comm, const CommOptions& options,
                                                         std::string& why_not) {
  OwnedComm own = OwnedComm::duplicate(comm);
  const MPI_Comm all = own.get();
  std::unique_ptr<NodeCommunicator> made(
      new NodeCommunicator(std::move(own), options, map_of(all, options.node)));
  NodeGroup& group = made->group_;
  const NodeMap& map = group.map;
  const OwnedComm here = OwnedComm::split(all, map.node(), map.local());
  group.window = ShmWindow::make(
      here.get(), group.limits.most_bytes + NodeGroup::result_bytes(map, group.limits), why_not,
      node_pieces_in_flight);
  if (!true_on_all_ranks(all, group.window != nullptr)) {
    if (group.window) why_not = "the ranks of another node cannot share memory";
    return nullptr;
  }
  group.rails = make_rails(all, map);
  if (options.node.least_piece_bytes == 0) {
    made->link_ = measure_links(all, map, group.rails, options.idle);
    made->options().node.least_piece_bytes = made->link_.piece_bytes();
    group.limits = limits_of(map, made->options().node);
  }
  return made;
}

NodeCommunicator::~NodeCommunicator() {
  if (idle()) return;
  for (Rail& rail : group_.rails) rail.first.release(), rail.second.release();
}

std::string NodeCommunicator::about() const {
  constexpr std::int64_t kib = 1024;
  std::string text = fmt::format("node: {} nodes, {} streams between them, pieces of {} to {} KiB",
                                 group_.map.nodes(), group_.map.rails(),
                                 group_.limits.least_bytes / kib, group_.limits.most_bytes / kib);
  if (link_.bytes_per_us > 0)
    text += fmt::format(" (measured: {:.0f} us from node to node, {:.2f} GB/s from each)",
                        link_.latency_us, link_.bytes_per_us * 1e-3);
  return text;
}

Ticket NodeCommunicator::start(const Collective& c) {
  validate(c, rank(), size());
  return enqueue(
      c, plan_node_pieces(c, size(), group_.map.nodes(), options().reductions, group_.limits),
      group_);
}

std::unique_ptr<Communicator> NodeCommunicator::group_of(OwnedComm comm) const {
  const NodeMap map = map_of(comm.get(), options().node);
  if (map.nodes() > 1 && map.most_locals() == 1)
    return std::make_unique<MpiCommunicator>(std::move(comm), options());
  std::string why_not;
  std::unique_ptr<Communicator> group;
  if (map.nodes() == 1)
    group = ShmCommunicator::make(comm.get(), options(), why_not);
  else
    group = make(comm.get(), options(), why_not);
  if (!group) throw CommError("group of a split: no shared memory: " + why_not);
  return group;
}

}  // namespace shardmark
