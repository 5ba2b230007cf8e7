// SPDX-License-Identifier: Apache-2.0
// What each part of a DeepSpeed config means for a plan. Only files in io/ use this header; other
// code calls `read_deepspeed`.
#pragma once

#include <io/deepspeed/config.hpp>

namespace shardmark {

/// Returns the parameters of the optimizer as values. Throws DeckError for an optimizer that is not
/// modelled, and for parameters that none of its implementations accepts.
DsValues optimizer_params_of(Origin& origin, const DsValues& optimizer);
/// Throws DeckError for parameters that DeepSpeed's choice of implementation does not accept, and
/// where DeepSpeed, or the schedule, does not take the optimizer.
void check_optimizer(const DsConfig& config, const Origin& origin, Schedule schedule);
/// Returns the optimizer. The config must have passed check_optimizer.
OptimizerSpec optimizer_spec(const DsConfig& config, const Origin& origin);

/// Returns the parameters of the scheduler as values; empty if no scheduler is named.
DsValues scheduler_params_of(Origin& origin, const DsValues& scheduler);
/// Returns the scheduler. The rates of `optimizer` replace a maximum that is not given.
SchedulerSpec scheduler_spec(const DsConfig& config, const OptimizerSpec& optimizer,
                             Origin& origin);

/// Returns the type that DeepSpeed knows by a name; empty for int8, which ShardMark does not model.
std::optional<Dtype> named_dtype(const Json& name);
/// Throws DeckError for combinations of types that DeepSpeed refuses or that are not modelled.
PrecisionSpec precision_spec(const DsConfig& config, const Origin& origin);
/// Returns whether DeepSpeed uses its BF16_Optimizer for this config, by the rule of
/// core/plan/deck/deck.hpp.
bool uses_bf16_optimizer(const DsConfig& config);

/// Returns whether torch_autocast is enabled.
bool autocasts(const DsConfig& config);
/// Throws DeckError for what DeepSpeed refuses or what is not modelled beside torch_autocast.
AutocastSpec autocast_spec(const DsConfig& config, const Origin& origin, Schedule schedule);

/// Return whether optimizer states, or parameters, are on the host, by offload_* or the deprecated
/// cpu_* keys.
bool offloads_optimizer(const DsConfig& config);
bool offloads_params(const DsConfig& config);
/// Returns whether the optimizer is Muon.
bool uses_muon(const DsConfig& config);
/// Throws DeckError for a device that is not modelled at this stage.
OffloadSpec offload_optimizer_spec(const DsConfig& config, Origin& origin);
OffloadSpec offload_param_spec(const DsConfig& config, const Origin& origin);
AioSpec aio_spec(const DsConfig& config);
/// Mutes the keys that offload makes ineffective, here and elsewhere in the config.
void mute_beside_offload(DsConfig& config);

/// Returns the sections that the config has and ShardMark models nothing of. Throws DeckError if
/// DeepSpeed refuses one.
std::map<std::string_view, DsValues> read_parts(Origin& origin, const DsValues& top,
                                                const DsValues& zero);
/// Mutes the keys of a section that is switched off.
void mute_parts(DsConfig& config);
/// The axes that the config asks for.
ParallelSpec parallel_spec(const DsConfig& config);
inline bool divides_samples(const DsConfig& config) {
  return parallel_spec(config).sequence > 1;
}
/// Throws DeckError for what acts in one of these sections, since nothing of them is modelled.
void judge_parts(const DsConfig& config, Origin& origin, Schedule schedule);

/// Mutes the keys that divide nothing of this model.
void judge_with_model(DsConfig& config, Origin& origin, const DsModel& model);

/// The values that DeepSpeed's schedule uses.
ZeroKnobs zero_knobs(const DsConfig& config);
/// Mutes the keys that other keys of the same config make ineffective.
void mute_without_effect(DsConfig& config);

}  // namespace shardmark
