// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numbers>

#include <core/plan/deck/lr_schedule.hpp>

namespace shardmark {
namespace {

// A smaller number would divide by ln 1 = 0.
constexpr std::int64_t least_warmup = 2;

double warmup_share(const SchedulerSpec& spec, std::int64_t i, std::int64_t warmup) {
  const auto steps = static_cast<double>(warmup);
  if (spec.linear) return static_cast<double>(i) / steps;
  return 1.0 / std::log(steps) * std::log(static_cast<double>(i + 1));
}

double decay_share(const SchedulerSpec& spec, std::int64_t i, std::int64_t warmup) {
  const auto left = static_cast<double>(spec.total_num_steps - i);
  const double window = std::max(1.0, static_cast<double>(spec.total_num_steps - warmup));
  return std::max(0.0, left / window);
}

double cosine_ratio(const SchedulerSpec& spec, std::int64_t i, std::int64_t warmup) {
  const auto window = std::max<std::int64_t>(1, spec.total_num_steps - warmup);
  const double progress =
      std::min(1.0, static_cast<double>(i - warmup + 1) / static_cast<double>(window));
  const double half = (1 + std::cos(std::numbers::pi * progress)) / 2;
  return std::max(0.0, spec.cos_min_ratio + (1.0 - spec.cos_min_ratio) * half);
}

}  // namespace

double lr_at(const SchedulerSpec& spec, double optimizer_lr, std::int64_t updates) {
  if (spec.type == LrSchedule::constant) return optimizer_lr;
  const bool cosine = spec.type == LrSchedule::warmup_cosine;
  if (updates < 1) return cosine ? 0.0 : spec.warmup_min_lr;
  const std::int64_t i = updates - 1;
  const std::int64_t warmup = std::max(least_warmup, spec.warmup_num_steps);
  const bool warming = i < warmup;
  if (cosine) {
    const double ratio = warming ? spec.warmup_min_ratio +
                                       warmup_share(spec, i, warmup) * (1.0 - spec.warmup_min_ratio)
                                 : cosine_ratio(spec, i, warmup);
    return optimizer_lr * ratio;
  }
  double share = 1.0;
  if (warming)
    share = warmup_share(spec, i, warmup);
  else if (spec.type == LrSchedule::warmup_decay)
    share = decay_share(spec, i, warmup);
  return spec.warmup_min_lr + (spec.warmup_max_lr - spec.warmup_min_lr) * share;
}

double adam_lr_at(const SchedulerSpec& spec, double adam_lr, std::int64_t updates) {
  SchedulerSpec of_group = spec;
  of_group.warmup_min_lr = spec.adam_min_lr;
  of_group.warmup_max_lr = spec.adam_max_lr;
  return lr_at(of_group, adam_lr, updates);
}

}  // namespace shardmark
