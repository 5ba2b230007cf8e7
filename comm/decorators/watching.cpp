// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <numeric>

#include <comm/decorators/watching.hpp>
#include <comm/mpi/unwatched_call.hpp>
#include <core/clock.hpp>
#include <core/error.hpp>
#include <core/random.hpp>

namespace shardmark {
namespace {

std::vector<int> all_ranks(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// A number that is the same on all ranks of a group and differs between groups.
std::uint64_t child_id(std::uint64_t parent, std::uint64_t split, int color) {
  return splitmix64(splitmix64(parent ^ split) ^ static_cast<std::uint64_t>(color));
}

}  // namespace

WatchingCommunicator::WatchingCommunicator(std::unique_ptr<Communicator> inner, Watchdog& watchdog)
    : WatchingCommunicator(std::move(inner), watchdog, watchdog.new_id(),
                           all_ranks(watchdog.size())) {}

WatchingCommunicator::WatchingCommunicator(std::unique_ptr<Communicator> inner, Watchdog& watchdog,
                                           std::uint64_t id, std::vector<int> ranks)
    : ForwardingCommunicator(std::move(inner)), watchdog_(watchdog) {
  lane_.id = id;
  lane_.ranks = std::move(ranks);
  watchdog_.add(lane_);
}

WatchingCommunicator::~WatchingCommunicator() {
  watchdog_.remove(lane_);
}

Ticket WatchingCommunicator::start(const Collective& c) {
  const Ticket ticket = inner().start(c);
  WatchedLane::Call call;
  call.op = c.op;
  std::memcpy(call.name, c.name.data(), std::min(c.name.size(), WatchedLane::name_chars - 1));
  if (open_.empty()) {
    lane_.oldest = call;
    lane_.oldest_since_ns = monotonic_ns();
  }
  open_.push_back(call);
  lane_.last = call;
  lane_.started = ticket;
  return ticket;
}

// Removes the calls that are done; true when none is open.
bool WatchingCommunicator::retire_done() {
  bool moved = false;
  while (!open_.empty() && inner().test(lane_.done + 1)) {
    open_.pop_front();
    ++lane_.done;
    moved = true;
  }
  if (moved && !open_.empty()) {
    lane_.oldest = open_.front();
    lane_.oldest_since_ns = monotonic_ns();
  }
  return open_.empty();
}

bool WatchingCommunicator::test(Ticket ticket) {
  const bool idle = retire_done();
  if (!idle && lane_.done < ticket) check_timeout();
  return inner().test(ticket);
}

bool WatchingCommunicator::holds_compute(Ticket ticket) {
  if (inner().holds_compute(ticket)) return true;
  if (!retire_done()) check_timeout();
  return false;
}

void WatchingCommunicator::wait(Ticket ticket) {
  while (!test(ticket)) watchdog_.idle().pause();
}

void WatchingCommunicator::progress() {
  if (retire_done()) inner().progress();
  check_timeout();
}

void WatchingCommunicator::check_timeout() {
  if (!watchdog_.poll_overdue(lane_)) return;
  if (finished_after_all()) return;
  watchdog_.abandon();
  throw CommError(watchdog_.timeout_message(lane_));
}

// Asks the other ranks; true when the call finished after all.
bool WatchingCommunicator::finished_after_all() {
  const std::uint64_t overdue = lane_.done + 1;
  const auto finished = [&] {
    if (!inner().test(overdue)) return false;
    watchdog_.forget_askers();
    return true;
  };
  watchdog_.ask_peers(lane_);
  while (!watchdog_.answers_complete()) {
    if (finished()) return true;
    watchdog_.idle().pause();
  }
  // Several ranks notice the timeout at the same time. The lowest of them reports the error and
  // ends the others while they wait here.
  const std::int64_t deadline = monotonic_ns() + watchdog_.grace_ns();
  while (watchdog_.lower_rank_reports() && monotonic_ns() < deadline) {
    watchdog_.answers_complete();
    if (finished()) return true;
    watchdog_.idle().pause();
  }
  return false;
}

// As a call like any other: one that went around this decorator would not be watched, and would
// make every later ticket one too high for it.
Ticket WatchingCommunicator::exchange(const void* own, void* all, std::int64_t bytes) {
  if (on_stream()) return inner().exchange(own, all, bytes);  // it uses no ticket there
  return Communicator::exchange(own, all, bytes);  // NOLINT(bugprone-parent-virtual-call)
}

std::unique_ptr<Communicator> WatchingCommunicator::split(int color, int key) {
  const std::uint64_t id = child_id(lane_.id, ++splits_, color);
  const UnwatchedCall call("splitting communicators");
  std::unique_ptr<Communicator> child = inner().split(color, key);
  // The world ranks of the group's members.
  std::vector<std::int64_t> members(static_cast<std::size_t>(child->size()));
  const std::int64_t own = watchdog_.rank();
  const Ticket ticket = child->exchange(&own, members.data(), sizeof own);
  auto watching = std::unique_ptr<WatchingCommunicator>(new WatchingCommunicator(
      std::move(child), watchdog_, id, std::vector<int>(members.begin(), members.end())));
  watching->lane_.started = watching->lane_.done = ticket;
  return watching;
}

}  // namespace shardmark
