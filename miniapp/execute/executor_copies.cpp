// SPDX-License-Identifier: Apache-2.0
// The executor's copies between tiers: over the link between host and device, and between the
// host's memory and files.
#include <utility>

#include <core/clock.hpp>
#include <miniapp/execute/executor.hpp>
#include <miniapp/execute/lane_times.hpp>

namespace shardmark {

// Returns the index of the new entry.
std::size_t Executor::trace_copy(const Carried& carried) {
  trace_->copies.push_back({trace_->events.size(), carried.begin_ns, carried.end_ns});
  return trace_->copies.size() - 1;
}

void Executor::start_copy(const Event& event, InFlight& started) {
  if (event.lane == Lane::disk) return start_transfer(event, started);
  ScopedTimer timer(times_.copies);
  const auto ops = operands(event);
  const std::int64_t bytes = event.elems * dtype_bytes(event.dtype);
  void *to = bind(ops[1]).data, *from = bind(ops[0]).data;
  const bool twice = options_.fault == Fault::extra_copy && link_.carried() == LinkVolume{};
  if (!link_.on_lane()) await_compute();
  for (int i = twice ? 0 : 1; i < 2; ++i) {
    const LinkQueue::Started copy = link_.start(direction_of(event), bytes, to, from);
    started.number = copy.number;
    if (trace_ != nullptr) trace_copy(copy.carried);
  }
}

void Executor::start_transfer(const Event& event, InFlight& started) {
  const auto ops = operands(event);
  const bool reads = direction_of(event) == Direction::nvme_to_host;
  const Operand &file = ops[reads ? 0 : 1], &memory = ops[reads ? 1 : 0];
  const std::int64_t size = dtype_bytes(event.dtype);
  started.number = disk_.start(direction_of(event), memory_.file(file.slot), file.offset * size,
                               event.elems * size, static_cast<std::byte*>(bind(memory).data));
  if (trace_ != nullptr) started.traced_copy = trace_copy({});
}

void Executor::hold_copy(const Event& event, InFlight& started) {
  if (started.number == 0) return;
  const std::uint64_t number = std::exchange(started.number, 0);
  const auto progress = [this] { collectives_.progress(); };
  const std::int64_t start_ns = monotonic_ns();
  if (event.lane != Lane::disk) {
    link_.hold(number, progress);
    if (link_.on_lane()) return;  // the host has not waited
    link_.waited(direction_of(event), count_waiting(start_ns));
    return;
  }
  const Carried carried = disk_.hold(number, progress);
  disk_.waited(direction_of(event), count_waiting(start_ns));
  if (trace_ == nullptr || !started.traced_copy) return;
  TracedCopy& traced = trace_->copies[*started.traced_copy];
  traced.begin_ns = carried.begin_ns;
  traced.end_ns = carried.end_ns;
}

// Counts the time since `start_ns` as waiting for a copy, and returns it.
std::int64_t Executor::count_waiting(std::int64_t start_ns) {
  const std::int64_t waited_ns = monotonic_ns() - start_ns;
  times_.copies += waited_ns;
  waited_for_copies_ns_ += waited_ns;
  return waited_ns;
}

void Executor::copies_on(std::unique_ptr<CopyLane> lane) {
  if (program_.memory_mode == MemoryMode::pooled && !program_.has_files())
    link_.copies_on(std::move(lane));
}

// Only here does the host learn how long the copies on a lane of the device took. They are the last
// that were traced, since such a session has no other copies.
void Executor::finish_copies() {
  if (!link_.on_lane()) return;
  const std::int64_t start_ns = monotonic_ns();
  const auto carried = link_.finish();
  if (carried.empty()) return;
  times_.copies += monotonic_ns() - start_ns;
  if (trace_ == nullptr) return;
  const std::size_t first = trace_->copies.size() - carried.size();
  for (std::size_t i = 0; i < carried.size(); ++i) {
    trace_->copies[first + i].begin_ns = carried[i].begin_ns;
    trace_->copies[first + i].end_ns = carried[i].end_ns;
  }
}

LinkVolume Executor::carried() const {
  LinkVolume both = link_.carried();
  add(both, disk_.carried());
  return both;
}

LinkTimesByDirection Executor::link_times() const {
  LinkTimesByDirection times = link_.times();
  for (Direction d : {Direction::nvme_to_host, Direction::host_to_nvme})
    times[d] = disk_.times()[d];
  return times;
}

}  // namespace shardmark
