// SPDX-License-Identifier: Apache-2.0
// The learning rate of a step, as DeepSpeed's WarmupLR, WarmupDecayLR and WarmupCosineLR make it
// (deepspeed/runtime/lr_schedules.py, 0.19). The engine advances the scheduler after each step that
// did not overflow; a skipped step does not advance it.
#pragma once

#include <cstdint>

#include <core/plan/deck/deck.hpp>

namespace shardmark {

/// The rate of the step after the scheduler has advanced `updates` times; 0 for the first step.
///
/// With i = updates - 1, w = max(2, warmup_num_steps), T = total_num_steps, a warm-up share
///     g(i) = ln(i + 1) / ln(w)      or, linear,      i / w            for 0 <= i < w
/// so that the first two steps have one rate: before it first advances, the scheduler has set the
/// minimum (the cosine 0), and g(0) = 0.
///     warmup          min + (max - min) * (i < w ? g(i) : 1)
///     warmup_decay    min + (max - min) * (i < w ? g(i) : max(0, (T - i) / max(1, T - w)))
///     warmup_cosine   optimizer_lr * (i < w ? r + (1 - r) * g(i)
///                         : max(0, c + (1 - c) * (1 + cos(pi * min(1, (i - w + 1) /
///                           max(1, T - w)))) / 2)),   r = warmup_min_ratio, c = cos_min_ratio
///     constant        optimizer_lr
/// `updates` is at least 0.
double lr_at(const SchedulerSpec& spec, double optimizer_lr, std::int64_t updates);

/// The rate of the parameters that AdamW updates beside Muon, which are a parameter group of their
/// own: `adam_lr` is the optimizer's, and the bounds are the group's.
double adam_lr_at(const SchedulerSpec& spec, double adam_lr, std::int64_t updates);

}  // namespace shardmark
