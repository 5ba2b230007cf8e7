// SPDX-License-Identifier: Apache-2.0
// The executor's copies between tiers: over the link between host and device, and between the
// host's memory and files.
#include <algorithm>
#include <chrono>
#include <thread>

#include <miniapp/execute/executor.hpp>
#include <miniapp/execute/scoped_timer.hpp>

namespace shardmark {
namespace {

// Waiting for an emulated link leaves the core to others only where much is left: a sleep may last
// longer than it should. Collectives must advance meanwhile.
constexpr std::int64_t worth_a_sleep_ns = 1'000'000;

}  // namespace

void Executor::start_copy(const Event& event, int index) {
  if (event.lane == Lane::disk) return start_transfer(event, index);
  ScopedTimer timer(times_.copies);
  const auto ops = operands(event);
  const std::int64_t bytes = event.elems * dtype_bytes(event.dtype);
  void *to = bind(ops[1]).data, *from = bind(ops[0]).data;
  const bool twice = options_.fault == Fault::extra_copy && link_.carried() == LinkVolume{};
  if (link_.lane() != nullptr) {
    for (int i = twice ? 0 : 1; i < 2; ++i) {
      on_lane_[index] = link_.start_on_lane(direction_of(event), bytes, to, from);
      traced_copies_.push_back(trace_ != nullptr ? trace_->events.size() : 0);
    }
    return;
  }
  await_compute();
  if (twice) link_.start(direction_of(event), bytes, to, from);
  const Carried carried = link_.start(direction_of(event), bytes, to, from);
  copied_ns_[index] = carried.end_ns;
  if (trace_ != nullptr)
    trace_->copies.push_back({trace_->events.size(), carried.begin_ns, carried.end_ns});
}

void Executor::wait_for_copy(const Event& event, int index) {
  if (event.lane == Lane::disk) return wait_for_transfer(event, index);
  if (CopyLane* const lane = link_.lane(); lane != nullptr) {
    if (on_lane_[index] > 0) lane->hold_compute(on_lane_[index]);
    on_lane_[index] = 0;
    return;
  }
  const std::int64_t start_ns = monotonic_ns();
  for (std::int64_t now = start_ns; now < copied_ns_[index]; now = monotonic_ns()) {
    for (Communicator* group : groups_) group->progress();
    const std::int64_t left = copied_ns_[index] - now;
    if (left > worth_a_sleep_ns)
      std::this_thread::sleep_for(std::chrono::nanoseconds(worth_a_sleep_ns / 2));
  }
  copied_ns_[index] = 0;
  const std::int64_t waited_ns = monotonic_ns() - start_ns;
  times_.copies += waited_ns;
  waited_for_copies_ns_ += waited_ns;
  link_.waited(direction_of(event), waited_ns);
}

void Executor::copies_on(std::unique_ptr<CopyLane> lane) {
  if (program_.memory_mode == MemoryMode::pooled && !program_.has_files())
    link_.copies_on(std::move(lane));
}

// Only here the host learns how long they took.
void Executor::finish_copies() {
  if (link_.lane() == nullptr) return;
  const std::int64_t start_ns = monotonic_ns();
  const auto carried = link_.finish_lane();
  if (!carried.empty()) times_.copies += monotonic_ns() - start_ns;
  for (std::size_t i = 0; trace_ != nullptr && i < carried.size(); ++i)
    trace_->copies.push_back({traced_copies_[i], carried[i].begin_ns, carried[i].end_ns});
  traced_copies_.clear();
}

void Executor::start_transfer(const Event& event, int index) {
  const auto ops = operands(event);
  const bool reads = direction_of(event) == Direction::nvme_to_host;
  const Operand &file = ops[reads ? 0 : 1], &memory = ops[reads ? 1 : 0];
  const std::int64_t size = dtype_bytes(event.dtype);
  transfers_[index] = disk_.start(direction_of(event), memory_.file(file.slot), file.offset * size,
                                  event.elems * size, static_cast<std::byte*>(bind(memory).data));
  if (trace_ == nullptr) return;
  traced_transfers_[index] = static_cast<int>(trace_->copies.size());
  trace_->copies.push_back({trace_->events.size(), 0, 0});
}

void Executor::wait_for_transfer(const Event& event, int index) {
  if (transfers_[index] == 0) return;
  const std::int64_t start_ns = monotonic_ns();
  const auto carried = disk_.wait(transfers_[index], [this] {
    for (Communicator* group : groups_) group->progress();
  });
  transfers_[index] = 0;
  const std::int64_t waited_ns = monotonic_ns() - start_ns;
  times_.copies += waited_ns;
  waited_for_copies_ns_ += waited_ns;
  disk_.waited(direction_of(event), waited_ns);
  if (trace_ == nullptr || traced_transfers_[index] < 0) return;
  TracedCopy& traced = trace_->copies[static_cast<std::size_t>(traced_transfers_[index])];
  traced.begin_ns = carried.begin_ns;
  traced.end_ns = carried.end_ns;
}

LinkVolume Executor::carried() const {
  LinkVolume both = link_.carried();
  add(both, disk_.carried());
  return both;
}

LinkTimesByDirection Executor::link_times() const {
  LinkTimesByDirection times = link_.times();
  for (Direction d : {Direction::nvme_to_host, Direction::host_to_nvme})
    times[static_cast<std::size_t>(d)] = disk_.times()[static_cast<std::size_t>(d)];
  return times;
}

}  // namespace shardmark
