// SPDX-License-Identifier: Apache-2.0
// A Hugging Face model config, read key by key. Only files in io/hf use this header.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <core/error.hpp>
#include <io/keys/key_reader.hpp>

namespace shardmark {

/// One config, or the part of one that describes the decoder of text.
class ModelConfig {
 public:
  ModelConfig(std::string path, Json json) : path_(std::move(path)), json_(std::move(json)) {}

  /// Returns a config that consists of an object in this one.
  ModelConfig part(std::string_view key) const {
    return {fmt::format("{}: {}", path_, key), *find(key)};
  }

  /// Throw DeckError, which names the key and its value.
  [[noreturn]] void refuse(std::string_view key, const Json& value, std::string_view what) const {
    throw DeckError(fmt::format("{}: {} = {}: {}", path_, brief_key(key), brief(value), what));
  }
  [[noreturn]] void cannot(std::string_view key, std::string_view what) const {
    refuse(key, *find(key), fmt::format("not modelled: {}", what));
  }

  /// Returns the value of a key; nothing if it is absent or null.
  const Json* find(std::string_view key) const {
    const auto it = json_.find(std::string(key));
    return it == json_.end() || it->is_null() ? nullptr : &*it;
  }
  bool has(std::string_view key) const { return json_.contains(std::string(key)); }
  bool flag(std::string_view key, bool fallback = false) const {
    const Json* value = find(key);
    if (value == nullptr) return fallback;
    if (!value->is_boolean()) refuse(key, *value, "must be true or false");
    return *value == true;
  }
  /// Refuses a flag that is set.
  void refuse_flag(std::string_view key, std::string_view what) const {
    if (flag(key)) cannot(key, what);
  }
  double real(std::string_view key, double fallback) const {
    const Json* value = find(key);
    if (value == nullptr) return fallback;
    if (!value->is_number()) refuse(key, *value, "must be a number");
    return value->get<double>();
  }
  std::string text(std::string_view key) const {
    const Json* value = find(key);
    if (value == nullptr) return {};
    if (!value->is_string()) refuse(key, *value, "must be text");
    return value->get<std::string>();
  }
  /// Reads a size by its own name or, where that is absent, by the common one.
  std::int64_t size(std::string_view key, std::int64_t fallback, std::string_view common = "",
                    std::int64_t most = 2147483647) const {
    const std::string_view name = find(key) || common.empty() ? key : common;
    const Json* value = find(name);
    if (value == nullptr) {
      defaulted_.emplace_back(key, fallback);
      return fallback;
    }
    const auto size = as_integer(*value);
    if (!size || *size < 1 || *size > most)
      refuse(name, *value, fmt::format("must be an integer from 1 to {}", most));
    return *size;
  }
  /// Reads a number of layers. Its bound is lower, since a description lists layers one by one.
  std::int64_t layers(std::string_view key, std::int64_t fallback) const {
    return size(key, fallback, "", 100'000);
  }
  const std::string& path() const { return path_; }
  /// The sizes that were read and are absent, with the values that stand for them.
  const std::vector<std::pair<std::string, std::int64_t>>& defaulted() const { return defaulted_; }

 private:
  std::string path_;
  Json json_;
  mutable std::vector<std::pair<std::string, std::int64_t>> defaulted_;
};

}  // namespace shardmark
