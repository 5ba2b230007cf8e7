// SPDX-License-Identifier: Apache-2.0
// Accelerate's own config, the file that `accelerate config` writes: its section `deepspeed_config`
// has either the plugin's keys or the path of a DeepSpeed config. Facts from Accelerate 1.15:
// commands/launch.py, utils/launch.py, DeepSpeedPlugin in utils/dataclasses.py, and
// Accelerator._prepare_deepspeed. Only files in io/ use this header.
#pragma once

#include <optional>

#include <io/hf/plugin_config.hpp>

namespace shardmark {

/// Returns whether `config` is Accelerate's form, not a DeepSpeed config.
bool is_accelerate_config(const Json& config);

/// Returns the DeepSpeed config that Accelerate's launcher and plugin make of its form, still with
/// "auto" values. Keys of DeepSpeed beside Accelerate's own, as `--set` makes them, replace what
/// the plugin says. Throws DeckError for what Accelerate refuses, and for other kinds of training.
Json accelerate_config(Origin& origin, const Json& config, std::optional<int> world);

/// Returns mixed_precision: "no", "fp16" or "bf16". Throws DeckError for others.
std::string accelerate_precision(const Origin& origin, const Json& config);

/// Fills what a script without the trainer gets from Accelerator.prepare.
void complete_without_trainer(PluginConfig& config, const std::string& precision,
                              std::optional<std::int64_t> hidden);

/// Fills the three sizes that follow from the model's hidden size, those of stage 3 only if asked
/// for. Throws DeckError for an "auto" of these without a hidden size.
void fill_sizes(PluginConfig& config, std::optional<std::int64_t> hidden, bool fills_stage3);

}  // namespace shardmark
