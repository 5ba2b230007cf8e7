// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <core/text.hpp>
#include <miniapp/tools/advise/answer/subject.hpp>

namespace shardmark {

std::string count_words(std::int64_t count) {
  const auto n = static_cast<double>(count);
  if (n >= 1e9) return fmt::format("{:.4g} billion", n * 1e-9);
  if (n >= 1e6) return fmt::format("{:.4g} million", n * 1e-6);
  return std::to_string(count);
}

std::string model_line(const Deck& deck, std::int64_t parameters) {
  const ModelSpec& m = deck.model;
  const std::string_view type = to_string(deck.zero.precision.computes_in());
  const std::string head =
      fmt::format("{} ({}, {} parameters", deck.name, to_string(m.family), count_words(parameters));
  if (!traits(m.family).has_arithmetic) return fmt::format("{}, {})", head, type);
  return fmt::format("{}: {} of width {}, sequence {}, {})", head, plural(m.layers, "layer"),
                     m.hidden, m.sequence, type);
}

std::string settings_line(const Deck& deck, const Batch& batch) {
  return fmt::format("schedule {}, micro-batch {}, {}, {} recomputation",
                     to_string(deck.run.schedule), batch.micro,
                     plural(batch.accumulation, "accumulation step"),
                     deck.run.activation_checkpointing ? "with" : "without");
}

nlohmann::ordered_json model_object(const Deck& deck, std::int64_t parameters) {
  const ModelSpec& m = deck.model;
  nlohmann::ordered_json o{{"name", deck.name},
                           {"family", to_string(m.family)},
                           {"parameters", parameters},
                           {"precision", to_string(deck.zero.precision.computes_in())}};
  if (!traits(m.family).has_arithmetic) return o;
  o["layers"] = m.layers;
  o["hidden"] = m.hidden;
  o["sequence"] = m.sequence;
  return o;
}

nlohmann::ordered_json settings_object(const Deck& deck, const Batch& batch) {
  return {{"schedule", to_string(deck.run.schedule)},
          {"micro_batch", batch.micro},
          {"accumulation_steps", batch.accumulation},
          {"recomputation", deck.run.activation_checkpointing}};
}

}  // namespace shardmark
