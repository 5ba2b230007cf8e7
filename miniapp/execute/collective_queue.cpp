// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include <miniapp/execute/collective_queue.hpp>

namespace shardmark {

CollectiveQueue::CollectiveQueue(std::vector<Communicator*> groups, Idle idle)
    : groups_(std::move(groups)),
      held_(groups_.size(), 0),
      idle_(idle),
      any_on_stream_(std::ranges::any_of(
          groups_, [](const Communicator* group) { return group->on_stream(); })) {}

// A rank that this group waits for may itself wait for this rank in another group, whose collective
// advances only if it is polled.
void CollectiveQueue::hold(int group, Ticket ticket) {
  Communicator& mine = *groups_[group];
  if (groups_.size() == 1) {
    hold_compute(mine, ticket);
  } else {
    while (!mine.holds_compute(ticket)) {
      for (Communicator* other : groups_)
        if (other != &mine) other->progress();
      idle_.pause();
    }
  }
  Ticket& held = held_[group];
  held = std::max(held, ticket);
}

void CollectiveQueue::finish() {
  for (std::size_t g = 0; g < groups_.size(); ++g)
    if (groups_[g]->on_stream() && held_[g] > 0) groups_[g]->wait(held_[g]);
}

}  // namespace shardmark
