// SPDX-License-Identifier: Apache-2.0
// A DeepSpeed config while Hugging Face's libraries complete it: access by dotted paths, and the
// part that Accelerate's DeepSpeedPlugin has in it. Only files in io/hf use this header.
#pragma once

#include <io/keys/key_reader.hpp>

namespace shardmark {

/// A config that is being filled. Findings go to the origin.
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
  Json* find(std::string_view path);

  Origin& origin_;
  Json config_;
};

/// Returns `deepspeed.path`.
std::string config_key(std::string_view path);

}  // namespace shardmark
