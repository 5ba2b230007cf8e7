// SPDX-License-Identifier: Apache-2.0
// Accelerate's own config, the file that `accelerate config` writes: its section `deepspeed_config`
// has either the plugin's keys or the path of a DeepSpeed config. Facts from Accelerate 1.15:
// commands/launch.py, utils/launch.py, DeepSpeedPlugin in utils/dataclasses.py, and
// Accelerator._prepare_deepspeed. Only files in io/ use this header.
#pragma once

#include <optional>

#include <io/keys/key_reader.hpp>

namespace shardmark {

/// A DeepSpeed config while Hugging Face's libraries complete it: access by dotted paths, and the
/// part that Accelerate's DeepSpeedPlugin has in it. Findings go to the origin.
class PluginConfig {
 public:
  PluginConfig(Origin& origin, Json config) : origin_(origin), config_(std::move(config)) {}

  /// Returns the value at a path like "fp16.enabled"; nothing if it is absent or null.
  const Json* get(std::string_view path) const;
  bool is_auto(std::string_view path) const;
  /// Replaces "auto" at a path, and says why; leaves any other value.
  void fill(std::string_view path, const Json& value, const std::string& why);
  /// Sets a value that the config does not have, and says why.
  void add(std::string_view path, const Json& value, const std::string& why);
  void remove(std::string_view path);

  /// The plugin's own part: steps and stage that are absent or "auto". Throws DeckError if there is
  /// no `zero_optimization`.
  void complete();
  /// Enables the section of a type, "fp16", "bf16" or "no", unless the config has that section.
  /// `why` says who asks for it. Throws DeckError if the other type is enabled.
  void set_mixed_precision(const std::string& type, const std::string& why);

  Origin& origin() { return origin_; }
  Json take() { return std::move(config_); }

 private:
  Origin& origin_;
  Json config_;
};

/// Returns `deepspeed.path`.
std::string config_key(std::string_view path);

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
