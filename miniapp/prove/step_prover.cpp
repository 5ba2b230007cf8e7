// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/core.h>

#include <core/clock.hpp>
#include <core/nn/optimizer/sketch.hpp>
#include <core/random.hpp>
#include <core/read_back.hpp>
#include <miniapp/prove/step_prover.hpp>

namespace shardmark {

namespace {

constexpr double most_cost = 0.02;  // of a step; what proving every step may cost

}  // namespace

void StepProver::begin(std::int64_t step) {
  if (proof_ == nullptr) return;
  begin_ns_ = monotonic_ns();
  spent_before_ns_ = proof_->spent_ns();
  step_ = step;
  data_.begin();
  proof_->begin(step, splitmix64(result_.seed + static_cast<std::uint64_t>(step)));
}

void StepProver::end() {
  if (proof_ == nullptr) return;
  proof_->end();
  data_read_.push_back({step_, data_.end()});
  const auto spent = static_cast<double>(proof_->spent_ns() - spent_before_ns_);
  const auto all = static_cast<double>(monotonic_ns() - begin_ns_);
  cost_ = spent / std::max(all - spent, 1.0);
  spent_s_ += spent * 1e-9;
  ++result_.proved_steps;
}

// The cost of the proof is taken from the rank that waits least for the others.
void StepProver::draw(std::int64_t steps, std::int64_t least_period) {
  result_ = {};
  spent_s_ = 0;
  result_.timed_steps = steps;
  if (proof_ == nullptr) return;
  collectives_before_ = proof_->proved();
  const double cost = std::ranges::min(peers_.gather(cost_));
  const auto wanted = static_cast<std::int64_t>(std::ceil(std::min(cost / most_cost, 1e9)));
  const std::int64_t most = std::max<std::int64_t>(steps, 1);
  result_.period = std::clamp<std::int64_t>(wanted, std::min(least_period, most), most);
  result_.seed = shared_seed(peers_);
}

bool StepProver::drawn(std::int64_t timed) const {
  return proof_ != nullptr && is_proved(result_, timed);
}

ProofResult StepProver::result(double timed_s) const {
  ProofResult result = result_;
  if (proof_ != nullptr) result.collectives = proof_->proved() - collectives_before_;
  result.cost = timed_s > 0 ? spent_s_ / timed_s : 0;
  return result;
}

std::string StepProver::first_failure() const {
  if (proof_ == nullptr) return {};
  const auto& failures = proof_->failures();
  const std::int64_t none = std::numeric_limits<std::int64_t>::max();
  const auto steps = peers_.gather(failures.empty() ? none : failures.front().step);
  const auto texts = peers_.gather(failures.empty() ? std::string{} : failures.front().text);
  const auto counts = peers_.gather(static_cast<std::int64_t>(failures.size()));
  const auto first = std::ranges::min_element(steps) - steps.begin();
  if (steps[first] == none) return {};
  std::int64_t more = -1;
  for (const std::int64_t n : counts) more += n;
  return fmt::format("step {}, rank {}: {}{}", steps[first], first, texts[first],
                     more > 0 ? fmt::format("; {} more like it", more) : "");
}

std::string StepProver::data_difference() const {
  const auto ranks = static_cast<std::size_t>(peers_.size());
  const auto all = peers_.gather(data_read_);  // by rank, then by step
  for (std::size_t i = 0; i < data_read_.size(); ++i)
    for (std::size_t r = 0; r < ranks; ++r) {
      const auto sharing = static_cast<std::size_t>(sharing_);
      const std::size_t next = (r + sharing) % ranks, first = r - r % sharing;
      const Read& read = all[r * data_read_.size() + i];
      if (read.data.own != all[first * data_read_.size() + i].data.own)
        return fmt::format(
            "in step {}, rank {} trained on other data than rank {}, which shares its samples",
            read.step, r, first);
      if (read.data.next != all[next * data_read_.size() + i].data.own)
        return fmt::format(
            "in step {}, rank {} trained on other data than rank {} reads at the same place",
            read.step, next, r);
    }
  return {};
}

namespace {
constexpr std::int64_t proved_elems = 1 << 18;
}

// The states of the run are only read: the kernel, which writes moments, works on copies.
UpdateSketches sketch_updates(const Context& context, std::span<const UpdatedRange> ranges,
                              const std::optional<AdamWStep>& step) {
  UpdateSketches sketches;
  const Kokkos::View<float*, Space::memory_space> scratch("sketch_updates", 3 * proved_elems);
  float *const param = scratch.data(), *const m = param + proved_elems, *const v = m + proved_elems;
  for (const UpdatedRange& r : ranges)
    for (std::int64_t at = 0; at < r.elems; at += proved_elems) {
      const std::int64_t n = std::min(proved_elems, r.elems - at), first = r.first_elem + at;
      copy_to_device(context.space, param, r.before + at,
                     static_cast<std::size_t>(n) * sizeof(float));
      sketch_state(context, param, n, first, sketches.before.sums);
      if (step) {
        convert(context, n, Stored(m), ConstStored(r.momentum + at));
        convert(context, n, Stored(v), ConstStored(r.variance + at));
        adamw_apply(context, n, param, m, v, *step);
      }
      sketch_state(context, param, n, first, sketches.expected.sums);
      sketch_state(context, r.master + at, n, first, sketches.after.sums);
    }
  return sketches;
}

}  // namespace shardmark
