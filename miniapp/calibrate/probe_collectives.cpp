// SPDX-License-Identifier: Apache-2.0
// Collectives among all ranks, by verb, type and size, alone and beside computation.
#include <algorithm>
#include <memory>

#include <fmt/core.h>

#include <comm/factory/make_communicator.hpp>
#include <comm/mpi/node.hpp>
#include <core/clock.hpp>
#include <core/memory/buffer.hpp>
#include <core/nn/kernels/storage.hpp>
#include <core/nn/products/matmul.hpp>
#include <core/plan/collective_scratch.hpp>
#include <miniapp/calibrate/probe.hpp>
#include <miniapp/execute/huge_pages.hpp>

namespace shardmark {
namespace {

class CollectiveProbe {
 public:
  // Among the ranks of `comm`. All ranks of the program measure at once, each in its group.
  CollectiveProbe(const Probe& probe, MPI_Comm comm, std::int64_t largest_bytes)
      : peers_(probe.world.peers),
        largest_(largest_bytes),
        send_(Tier::device, largest_bytes, "shardmark::device::staging::calibrate.send"),
        recv_(Tier::device, largest_bytes, "shardmark::device::staging::calibrate.recv"),
        matmul_(std::int64_t{1} << 20),
        context_{Space(), matmul_} {
    options_.idle = probe.world.node.idle();
    options_.compute_stream = native_stream(Space());
    comm_ = make_communicator(Backend::automatic, comm, options_);
    for (Buffer* b : {&send_, &recv_}) {
      prefer_huge_pages(Tier::device, b->data<std::byte>(), b->bytes());
      clear(context_, b->bytes(), b->data<std::byte>());
    }
    std::int64_t most = 0;
    for (const Op op : {Op::all_reduce, Op::reduce_scatter, Op::reduce})
      for (const Dtype d : {Dtype::fp32, Dtype::bf16})
        most = std::max(most, scratch_bytes(op, d, largest_bytes / dtype_bytes(d)));
    scratch_ = Buffer(Tier::device, most, "shardmark::device::staging::calibrate.scratch");
  }

  std::string_view library() const { return to_string(comm_->backend()); }
  int size() const { return comm_->size(); }

  // The time from the arrival of the last rank to the end on the slowest one.
  std::vector<double> times(Op op, Dtype dtype, std::int64_t bytes, int repeats) {
    const std::int64_t elems =
        std::max<std::int64_t>(1, bytes / dtype_bytes(dtype) / size()) * size();
    std::vector<double> mine;
    for (int i = 0; i <= repeats; ++i) {
      const Collective c = next(op, dtype, elems);
      peers_.barrier();
      const std::int64_t start_ns = monotonic_ns();
      comm_->wait(comm_->start(c));
      if (i > 0) mine.push_back(static_cast<double>(monotonic_ns() - start_ns) * 1e-9);
    }
    peers_.max(mine);
    return mine;
  }

  // The part of a collective's time by which computation beside it takes longer.
  double share_of_compute(std::int64_t bytes);

 private:
  std::int64_t scratch_bytes(Op op, Dtype d, std::int64_t elems) const {
    return collective_scratch_bytes(op, d, elems, size(), options_.reductions,
                                    options_.mpi.staging_cap_bytes, options_.mpi.piece_bytes);
  }
  // Operands walk through the buffers, so that small ones are in no cache, as in a step.
  Collective next(Op op, Dtype dtype, std::int64_t elems) {
    const std::int64_t bytes = elems * dtype_bytes(dtype);
    if (at_ + bytes > largest_) at_ = 0;
    Collective c;
    c.op = op, c.dtype = dtype, c.elems = op == Op::barrier ? 0 : elems, c.root = 0;
    if (op != Op::reduce && op != Op::broadcast) c.root = -1;
    c.reduction = is_reduction(op) ? Reduction::sum : Reduction::none;
    auto *send = send_.data<std::byte>() + at_, *recv = recv_.data<std::byte>() + at_;
    if (op == Op::all_reduce || op == Op::reduce || op == Op::broadcast) recv = send;
    if (op != Op::barrier) c.send = send, c.recv = recv;
    c.scratch_bytes = is_reduction(op) ? scratch_bytes(op, dtype, elems) : 0;
    c.scratch = scratch_.data<std::byte>();
    c.name = "calibrate";
    at_ += (bytes + 4095) / 4096 * 4096;
    return c;
  }

  Peers& peers_;
  std::int64_t largest_, at_ = 0;
  Buffer send_, recv_, scratch_{Tier::device, 0, "shardmark::device::staging::none"};
  MatMul matmul_;
  Context context_;
  CommOptions options_;
  std::unique_ptr<Communicator> comm_;
};

double CollectiveProbe::share_of_compute(std::int64_t bytes) {
  const std::int64_t elems = bytes / 4 / size() * size();
  const double alone = undisturbed_mean(times(Op::all_gather, Dtype::fp32, bytes, 5));
  std::vector<float> work(1 << 16, 1.0f);
  Communicator* comm = comm_.get();
  context_.poll = [](void* c) { static_cast<Communicator*>(c)->progress(); };
  context_.poll_arg = comm;
  const auto compute = [&](double seconds_at_least) {
    const std::int64_t start_ns = monotonic_ns();
    int kernels = 0;
    while (static_cast<double>(monotonic_ns() - start_ns) * 1e-9 < seconds_at_least) {
      divide(context_, std::ssize(work), Stored(work.data()), 1.5);
      ++kernels;
    }
    return kernels;
  };
  const auto run_kernels = [&](int kernels) {
    for (int i = 0; i < kernels; ++i) divide(context_, std::ssize(work), Stored(work.data()), 1.5);
  };
  int kernels = compute(3 * alone);
  kernels = static_cast<int>(peers_.max(kernels));
  std::vector<double> shares;
  for (int i = 0; i < 5; ++i) {
    peers_.barrier();
    std::int64_t start_ns = monotonic_ns();
    run_kernels(kernels);
    const double bare = static_cast<double>(monotonic_ns() - start_ns) * 1e-9;
    const Collective c = next(Op::all_gather, Dtype::fp32, elems);
    peers_.barrier();
    start_ns = monotonic_ns();
    const Ticket ticket = comm_->start(c);
    run_kernels(kernels);
    comm_->wait(ticket);
    const double both = static_cast<double>(monotonic_ns() - start_ns) * 1e-9;
    shares.push_back(std::clamp((both - bare) / alone, 0.0, 1.0));
  }
  peers_.max(shares);
  return undisturbed_mean(shares);
}

// Measures all verbs among the ranks of `comm`, of which `ranks_per_node` share a node.
NetworkLevel measure_level(const Probe& probe, MPI_Comm comm, int ranks_per_node) {
  const std::int64_t largest = probe.quick ? std::int64_t{64} << 20 : std::int64_t{512} << 20;
  CollectiveProbe collectives(probe, comm, largest);
  const int ranks = collectives.size();
  NetworkLevel level;
  level.name = ranks_per_node == ranks ? "within the node" : "all ranks";
  level.between_nodes = ranks_per_node < ranks;
  level.library = collectives.library();
  level.link.measured = true;
  const auto measure = [&](Op op, Dtype dtype, std::int64_t from) {
    probe.progress(fmt::format("{} {} {}", to_string(op), to_string(dtype), level.name));
    CollectiveTimes t{
        .op = op, .dtype = dtype, .ranks = ranks, .ranks_per_node = ranks_per_node, .points = {}};
    for (std::int64_t bytes = from; bytes <= largest; bytes *= op == Op::barrier ? largest : 4) {
      const double guess = t.points.empty() ? 1e-4 : t.points.back().seconds * 4;
      const int repeats = std::clamp(static_cast<int>(0.08 / guess), probe.quick ? 2 : 3, 25);
      t.points.push_back({static_cast<double>(bytes),
                          undisturbed_mean(collectives.times(op, dtype, bytes, repeats))});
      if (bytes < largest && bytes * 4 > largest && op != Op::barrier) bytes = largest / 4;
    }
    never_faster_when_larger(t.points);
    level.collectives.push_back(std::move(t));
  };
  for (const Op op : {Op::all_gather, Op::reduce_scatter, Op::all_reduce, Op::reduce, Op::broadcast,
                      Op::all_to_all})
    measure(op, Dtype::fp32, 64);
  for (const Op op : {Op::reduce_scatter, Op::all_reduce, Op::reduce}) measure(op, Dtype::bf16, 64);
  measure(Op::barrier, Dtype::uint8, 1);
  const CollectiveTimes& gather = level.collectives.front();
  level.link.latency_s = gather.points.front().seconds;
  level.link.bytes_per_s =
      gather.points.back().size / gather.points.back().seconds * (ranks - 1) / ranks;
  probe.progress("collectives beside computation");
  level.compute_share = collectives.share_of_compute(std::int64_t{16} << 20);
  level.speed_beside_compute = level.compute_share > 0.5 ? 0.5 : 1;
  return level;
}

}  // namespace

void probe_collectives(const Probe& probe, Machine& machine) {
  const World& world = probe.world;
  const int ranks = world.peers.size(), of_node = world.node.ranks;
  if (ranks < 2) return;
  // The nodes' own collectives are measured on all nodes at once, as a run has them; rank 0 writes.
  if (of_node < ranks && world.peers.gather(of_node).front() > 1)
    machine.network.push_back(measure_level(probe, ranks_of_node(world.comm).get(), of_node));
  machine.network.push_back(measure_level(probe, world.comm, of_node));
}

}  // namespace shardmark
