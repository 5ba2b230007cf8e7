// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <numeric>

#include <comm/proof/proof.hpp>
#include <core/clock.hpp>

namespace shardmark {

Proof::Timer::Timer(Proof& proof) : proof_(proof), begin_ns_(monotonic_ns()) {}

Proof::Timer::~Timer() {
  proof_.spent_ns_ += monotonic_ns() - begin_ns_;
}

GroupProof& Proof::add_group(Communicator& lane, Backend backend) {
  return *groups_.emplace_back(std::make_unique<GroupProof>(lane, backend, options_));
}

void Proof::begin(std::int64_t step, std::uint64_t key) {
  on_ = true;
  for (auto& group : groups_) group->begin(step, key);
}

void Proof::end() {
  const Timer timer(*this);
  for (auto& group : groups_) group->compare(failures_);
  on_ = false;
}

void Proof::compare(GroupProof& group) {
  const Timer timer(*this);
  group.compare(failures_);
}

std::int64_t Proof::proved() const {
  return std::transform_reduce(groups_.begin(), groups_.end(), std::int64_t{0}, std::plus<>(),
                               [](const auto& group) { return group->proved(); });
}

}  // namespace shardmark
