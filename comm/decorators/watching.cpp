// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <numeric>

#include <comm/decorators/watching.hpp>
#include <core/clock.hpp>
#include <core/error.hpp>

namespace shardmark {
namespace {

std::vector<int> all_ranks(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// The same number on all ranks of a group, another one in every other group.
std::uint64_t child_id(std::uint64_t parent, std::uint64_t split, int color) {
  std::uint64_t id = parent;
  for (const std::uint64_t part : {split, static_cast<std::uint64_t>(color)}) {
    id = (id ^ part) * 0x9e3779b97f4a7c15u;
    id ^= id >> 29;
  }
  return id;
}

}  // namespace

WatchingCommunicator::WatchingCommunicator(std::unique_ptr<Communicator> inner, Watch& watch)
    : WatchingCommunicator(std::move(inner), watch, watch.new_id(), all_ranks(watch.size())) {}

WatchingCommunicator::WatchingCommunicator(std::unique_ptr<Communicator> inner, Watch& watch,
                                           std::uint64_t id, std::vector<int> ranks)
    : ForwardingCommunicator(std::move(inner)), watch_(watch) {
  lane_.id = id;
  lane_.ranks = std::move(ranks);
  watch_.add(lane_);
}

WatchingCommunicator::~WatchingCommunicator() {
  watch_.remove(lane_);
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

// Takes note of what is done; true when nothing is open.
bool WatchingCommunicator::settle() {
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
  const bool idle = settle();
  if (!idle && lane_.done < ticket) check();
  return inner().test(ticket);
}

bool WatchingCommunicator::holds_compute(Ticket ticket) {
  if (inner().holds_compute(ticket)) return true;
  if (!settle()) check();
  return false;
}

void WatchingCommunicator::wait(Ticket ticket) {
  while (!test(ticket)) watch_.idle().pause();
}

void WatchingCommunicator::progress() {
  if (settle()) inner().progress();
  check();
}

void WatchingCommunicator::check() {
  if (!watch_.look(lane_)) return;
  if (inquire()) return;
  watch_.give_up();
  throw CommError(watch_.verdict(lane_));
}

// Asks around; true when the call finished after all.
bool WatchingCommunicator::inquire() {
  const std::uint64_t overdue = lane_.done + 1;
  const auto finished = [&] {
    if (!inner().test(overdue)) return false;
    watch_.forgive();
    return true;
  };
  watch_.ask(lane_);
  while (!watch_.answered(lane_)) {
    if (finished()) return true;
    watch_.idle().pause();
  }
  // Several ranks notice at the same time; the lowest speaks, and ends the others while they wait.
  const std::int64_t deadline = monotonic_ns() + watch_.grace_ns();
  while (watch_.lower_rank_asks() && monotonic_ns() < deadline) {
    watch_.answered(lane_);
    if (finished()) return true;
    watch_.idle().pause();
  }
  return false;
}

std::unique_ptr<Communicator> WatchingCommunicator::split(int color, int key) {
  const std::uint64_t id = child_id(lane_.id, ++splits_, color);
  std::unique_ptr<Communicator> child = inner().split(color, key);
  // Who is in it, by rank of the world.
  std::vector<std::int64_t> members(static_cast<std::size_t>(child->size()));
  const std::int64_t own = watch_.rank();
  const Ticket ticket = child->exchange(&own, members.data(), sizeof own);
  auto watching = std::unique_ptr<WatchingCommunicator>(new WatchingCommunicator(
      std::move(child), watch_, id, std::vector<int>(members.begin(), members.end())));
  watching->lane_.started = watching->lane_.done = ticket;
  return watching;
}

}  // namespace shardmark
