// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <comm/factory/make_communicator.hpp>
#include <core/clock.hpp>
#include <core/nn/kernels/storage.hpp>
#include <core/plan/collective_scratch.hpp>
#include <miniapp/execute/lane_times.hpp>
#include <miniapp/ranks/clock_offset.hpp>
#include <miniapp/tools/calibrate/collective_probe.hpp>
#include <miniapp/tools/calibrate/samples.hpp>

namespace shardmark {

CollectiveProbe::CollectiveProbe(const Node& node, MPI_Comm comm, Peers& peers,
                                 std::int64_t largest_bytes)
    : peers_(peers),
      matmul_(std::int64_t{1} << 20),
      context_{Space(), matmul_},
      send_(context_, Dtype::fp32, largest_bytes),
      recv_(context_, Dtype::fp32, largest_bytes) {
  options_.idle = node.idle();
  lane_ = make_communicator(Backend::automatic, comm, options_);
  clock_.emplace(group_.emplace(*lane_), node.host);
  options_.compute_stream = native_stream(Space());
  comm_ = make_communicator(Backend::automatic, comm, options_);
  std::int64_t most = 0;
  for (const Op op : {Op::all_reduce, Op::reduce_scatter, Op::reduce})
    for (const Dtype d : {Dtype::fp32, Dtype::bf16})
      most = std::max(most, scratch_bytes(op, d, largest_bytes / dtype_bytes(d)));
  scratch_ = Buffer(Tier::device, most, "shardmark::device::staging::calibrate.scratch");
}

std::vector<double> CollectiveProbe::times(Op op, Dtype dtype, std::int64_t bytes, int repeats,
                                           bool in_place) {
  const std::int64_t elems =
      std::max<std::int64_t>(1, bytes / dtype_bytes(dtype) / size()) * size();
  std::vector<double> starts_s, ends_s;
  for (int i = 0; i <= repeats; ++i) {
    const Collective c = next(op, dtype, elems, in_place);
    if (in_place) update_shard(c);
    peers_.barrier();
    const double start_s = clock_->now_s();
    comm_->wait(comm_->start(c));
    if (i > 0) starts_s.push_back(start_s), ends_s.push_back(clock_->now_s());
  }
  std::vector<double> seconds = spans(starts_s, ends_s, *group_);
  peers_.max(seconds);
  return seconds;
}

std::int64_t CollectiveProbe::scratch_bytes(Op op, Dtype d, std::int64_t elems) const {
  return collective_scratch_bytes(op, d, elems, size(), options_.reductions,
                                  options_.mpi.staging_cap_bytes, options_.mpi.piece_bytes);
}

// The operands are in no cache, as in a step.
Collective CollectiveProbe::next(Op op, Dtype dtype, std::int64_t elems, bool in_place) {
  const std::int64_t bytes = elems * dtype_bytes(dtype);
  Collective c;
  c.op = op, c.dtype = dtype, c.elems = op == Op::barrier ? 0 : elems, c.root = 0;
  if (op != Op::reduce && op != Op::broadcast) c.root = -1;
  c.reduction = is_reduction(op) ? Reduction::sum : Reduction::none;
  void *send = send_.take(bytes), *recv = recv_.take(bytes);
  if (op == Op::all_reduce || op == Op::reduce || op == Op::broadcast) recv = send;
  if (in_place) send = static_cast<std::byte*>(recv) + bytes / size() * comm_->rank();
  if (op != Op::barrier) c.send = send, c.recv = recv;
  c.scratch_bytes = is_reduction(op) ? scratch_bytes(op, dtype, elems) : 0;
  c.scratch = scratch_.data<std::byte>();
  c.name = "calibrate";
  return c;
}

// Parameters are gathered in place after an update, which leaves a cache full of lines that are
// still to be written to memory, the shard's own ones among them.
void CollectiveProbe::update_shard(const Collective& c) {
  constexpr std::int64_t fills_a_cache = std::int64_t{24} << 20, part = std::int64_t{512} << 10;
  const auto write = [&](void* to, std::int64_t bytes) {
    const auto* from = static_cast<const std::byte*>(send_.take(bytes));
    for (std::int64_t at = 0; at < bytes; at += part)
      convert(context_, std::min(part, bytes - at) / dtype_bytes(c.dtype),
              {c.dtype, static_cast<std::byte*>(to) + at}, {c.dtype, from + at});
  };
  write(recv_.take(fills_a_cache), fills_a_cache);
  write(const_cast<void*>(c.send), c.elems / size() * dtype_bytes(c.dtype));
  fence(context_.space, "shardmark::calibrate");
}

double CollectiveProbe::share_of_compute(std::int64_t bytes) {
  const std::int64_t elems = bytes / 4 / size() * size();
  const double alone = mean_without_outliers(times(Op::all_gather, Dtype::fp32, bytes, 5));
  std::vector<float> work(1 << 16, 1.0f);
  Communicator* comm = comm_.get();
  context_.poll = [](void* c) { static_cast<Communicator*>(c)->progress(); };
  context_.poll_arg = comm;
  const auto run_kernels = [&](int kernels) {
    for (int i = 0; i < kernels; ++i) divide(context_, std::ssize(work), Stored(work.data()), 1.5);
  };
  int kernels = 0;
  for (const std::int64_t start_ns = monotonic_ns(); seconds_since(start_ns) < 3 * alone; ++kernels)
    run_kernels(1);
  kernels = static_cast<int>(peers_.max(kernels));
  std::vector<double> shares;
  for (int i = 0; i < 5; ++i) {
    peers_.barrier();
    std::int64_t start_ns = monotonic_ns();
    run_kernels(kernels);
    const double bare = seconds_since(start_ns);
    const Collective c = next(Op::all_gather, Dtype::fp32, elems);
    peers_.barrier();
    start_ns = monotonic_ns();
    const Ticket ticket = comm_->start(c);
    run_kernels(kernels);
    comm_->wait(ticket);
    const double both = seconds_since(start_ns);
    shares.push_back(std::clamp((both - bare) / alone, 0.0, 1.0));
  }
  peers_.max(shares);
  return mean_without_outliers(shares);
}

}  // namespace shardmark
