// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <comm/collective.hpp>
#include <comm/decorators/counting.hpp>
#include <core/clock.hpp>

namespace shardmark {

// Adds the time of its scope to the total and to the oldest open collective.
class CountingCommunicator::BlockedTimer {
 public:
  explicit BlockedTimer(CountingCommunicator& owner) : owner_(owner), begin_ns_(monotonic_ns()) {}
  ~BlockedTimer() { charge(); }
  BlockedTimer(const BlockedTimer&) = delete;
  BlockedTimer& operator=(const BlockedTimer&) = delete;
  /// Adds the time that has passed so far; called before the oldest collective changes.
  void charge() {
    const std::int64_t now = monotonic_ns();
    const std::int64_t since_ns = std::exchange(begin_ns_, now);
    if (const bool* emulating = owner_.counters_.emulating_; emulating != nullptr && *emulating)
      return;
    owner_.counters_.blocked_ns_ += now - since_ns;
    if (!owner_.open_.empty()) owner_.open_.front().record.blocked_ns += now - since_ns;
  }

 private:
  CountingCommunicator& owner_;
  std::int64_t begin_ns_;
};

Volume CommCounters::volume(int group) const {
  Volume sum;
  for (int g = 0; g < static_cast<int>(volumes_.size()); ++g)
    if (group == all_groups || group == g) add(sum, volumes_[static_cast<std::size_t>(g)]);
  return sum;
}

MovedVolume CommCounters::moved(int group) const {
  if (group >= static_cast<int>(sources_.size())) return {};
  const Source& source = sources_[static_cast<std::size_t>(group)];
  if (source.inner == nullptr) return {};
  MovedVolume now = source.inner->moved();
  for (const auto& [op, before] : source.before) now[op] = now[op].since(before);
  return now;
}

void CommCounters::reset() {
  for (Volume& v : volumes_) v.clear();
  for (Source& s : sources_)
    if (s.inner != nullptr) s.before = s.inner->moved();
  blocked_ns_ = in_flight_ns_ = 0;
  records_.clear();
}

int CommCounters::name_index(std::string_view name) {
  const auto it = index_.find(name);
  if (it != index_.end()) return it->second;
  const int index = static_cast<int>(names_.size());
  names_.emplace_back(name);
  index_.emplace(names_.back(), index);
  return index;
}

CountingCommunicator::CountingCommunicator(std::unique_ptr<Communicator> inner,
                                           CommCounters& counters)
    : ForwardingCommunicator(std::move(inner)),
      counters_(counters),
      group_(static_cast<int>(counters.volumes_.size())) {
  counters.volumes_.emplace_back();
  counters.sources_.push_back({&this->inner(), {}});
}

CountingCommunicator::~CountingCommunicator() {
  counters_.sources_[static_cast<std::size_t>(group_)].inner = nullptr;
  counters_.open_ -= open_.size();
}

Ticket CountingCommunicator::start(const Collective& c) {
  const std::int64_t elems = counted_elems(c, rank(), size());
  Open open{0, counters_.recording_, {c.op, c.dtype, elems, -1, group_, monotonic_ns(), 0, 0}};
  if (open.recorded) open.record.name = counters_.name_index(c.name);
  BlockedTimer blocked(*this);
  open.ticket = inner().start(c);
  Traffic& t = counters_.volumes_[static_cast<std::size_t>(group_)][c.op];
  t += Traffic{1, elems, elems * dtype_bytes(c.dtype)};
  if (counters_.open_++ == 0) counters_.in_flight_since_ns_ = open.record.issue_ns;
  open_.push_back(open);
  return open.ticket;
}

void CountingCommunicator::close_oldest() {
  Open& oldest = open_.front();
  oldest.record.done_ns = monotonic_ns();
  if (oldest.recorded) counters_.records_.push_back(oldest.record);
  if (--counters_.open_ == 0)
    counters_.in_flight_ns_ += oldest.record.done_ns - counters_.in_flight_since_ns_;
  open_.pop_front();
}

void CountingCommunicator::close_done() {
  BlockedTimer blocked(*this);
  while (!open_.empty() && inner().test(open_.front().ticket)) {
    blocked.charge();
    close_oldest();
  }
}

bool CountingCommunicator::test(Ticket ticket) {
  close_done();
  // A collective that finished after close_done() is reported by the next call, when it is closed.
  if (!open_.empty() && open_.front().ticket <= ticket) return false;
  return inner().test(ticket);  // throws if the ticket is unknown
}

void CountingCommunicator::wait(Ticket ticket) {
  BlockedTimer blocked(*this);
  while (!open_.empty() && open_.front().ticket <= ticket) {
    inner().wait(open_.front().ticket);
    blocked.charge();
    close_oldest();
  }
  inner().wait(ticket);  // throws if the ticket is unknown
}

void CountingCommunicator::progress() {
  if (open_.empty()) return inner().progress();
  close_done();  // testing the oldest collective makes progress
}

std::unique_ptr<Communicator> CountingCommunicator::split(int color, int key) {
  return std::make_unique<CountingCommunicator>(inner().split(color, key), counters_);
}

}  // namespace shardmark
