// SPDX-License-Identifier: Apache-2.0
// What each part of a DeepSpeed config comes to. Inside io/ only; users call `read_deepspeed`.
#pragma once

#include <io/deepspeed/config.hpp>

namespace shardmark {

/// The optimizer's parameters, still as values. Throws DeckError: an optimizer other than Adam and
/// AdamW, parameters that the one which DeepSpeed would build does not take.
DsValues adam_of(Origin& origin, const DsValues& optimizer);
OptimizerSpec optimizer_spec(const DsConfig& config, const Origin& origin);

/// The scheduler's parameters, still as values; empty where no scheduler is named.
DsValues scheduler_params_of(Origin& origin, const DsValues& scheduler);
/// `optimizer_lr` stands in for a maximum that is not given.
SchedulerSpec scheduler_spec(const DsConfig& config, double optimizer_lr, Origin& origin);

/// Throws DeckError for mixes of types that DeepSpeed refuses or that are not modelled.
PrecisionSpec precision_spec(const DsConfig& config, const Origin& origin);
/// Stage 1 with bf16 parameters and fp32 accumulation: DeepSpeed takes its BF16_Optimizer, which
/// reduces one whole flat buffer a group.
bool reduces_flat_bf16(const DsConfig& config);

/// Whether optimizer states, or parameters, are on the host: offload_* or the deprecated cpu_*.
bool offloads_optimizer(const DsConfig& config);
bool offloads_params(const DsConfig& config);
/// Throws DeckError for a device that is not modelled at this stage.
OffloadSpec offload_optimizer_spec(const DsConfig& config, Origin& origin);
OffloadSpec offload_param_spec(const DsConfig& config, const Origin& origin);
AioSpec aio_spec(const DsConfig& config);
/// Silences what offload leaves without effect, here and elsewhere in the config.
void mute_beside_offload(DsConfig& config);

/// The values of `zero_optimization` that the schedule uses.
ZeroKnobs zero_knobs(const DsConfig& config);
/// Silences the keys that others in the same config leave without effect.
void mute_without_effect(DsConfig& config);

}  // namespace shardmark
