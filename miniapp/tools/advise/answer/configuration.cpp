// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <core/text.hpp>
#include <miniapp/tools/advise/answer/configuration.hpp>
#include <miniapp/tools/advise/knobs.hpp>

namespace shardmark {

namespace {

bool is_offload(const Knob& knob) {
  return knob.key.find("offload") != std::string_view::npos;
}

// A kind of offload that is off needs no word, and one that is on always does.
bool is_worth_a_word(const Knob& knob, const std::string& value, const std::string& given) {
  if (knob.brief.empty()) return false;
  return is_offload(knob) ? value != "none" : value != given;
}

std::string schedule_of(const Candidate& c, Framework framework) {
  if (framework != Framework::shardmark) return "";
  return fmt::format(" under the schedule {}", to_string(c.schedule));
}

// "hpZ 16 instead of 8", for candidates of one kind.
std::vector<std::string> differing_knobs(const Candidate& c, const Candidate& best) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < c.values.size(); ++i)
    if (!knobs()[i].brief.empty() && c.values[i] != best.values[i])
      parts.push_back(
          fmt::format("{} {} instead of {}", knobs()[i].brief, c.values[i], best.values[i]));
  return parts;
}

}  // namespace

std::string extras(const Candidate& c, const std::vector<std::string>& given) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < c.values.size(); ++i) {
    const Knob& knob = knobs()[i];
    if (is_set(c.changes, knob.key) || is_offload(knob))
      if (is_worth_a_word(knob, c.values[i], given[i]))
        parts.push_back(fmt::format("{} {}", knob.brief, c.values[i]));
  }
  return join(parts, ", ");
}

std::string configuration(const Candidate& c, Framework framework,
                          const std::vector<std::string>& given) {
  const std::string more = extras(c, given);
  return fmt::format("stage {}{}, micro-batch {} with {}, {} recomputation{}{}", c.stage,
                     schedule_of(c, framework), c.batch.micro,
                     plural(c.batch.accumulation, "accumulation step"),
                     c.recomputes ? "with" : "without", more.empty() ? "" : ", ", more);
}

std::string beside(const Candidate& other, const Candidate& best, Framework framework,
                   const std::vector<std::string>& given) {
  const bool same_kind = other.stage == best.stage && other.schedule == best.schedule;
  std::vector<std::string> parts;
  if (!same_kind)
    parts.push_back(fmt::format("stage {}{}", other.stage, schedule_of(other, framework)));
  if (other.batch.micro != best.batch.micro)
    parts.push_back(fmt::format("micro-batch {} with {}", other.batch.micro,
                                plural(other.batch.accumulation, "accumulation step")));
  if (other.recomputes != best.recomputes)
    parts.push_back(other.recomputes ? "recomputation" : "no recomputation");
  if (same_kind) {
    for (const std::string& knob : differing_knobs(other, best)) parts.push_back(knob);
  } else if (const std::string more = extras(other, given); !more.empty()) {
    parts.push_back(more);
  }
  return (same_kind ? "the same with " : "") + join(parts, ", ");
}

std::string refusal_clause(const Deck& deck, std::string refusal) {
  if (const std::string path = deck.path + ": "; refusal.starts_with(path))
    refusal.erase(0, path.size());
  if (const std::size_t colon = refusal.find(": "); colon != std::string::npos)
    refusal.erase(colon, 1);
  return refusal;
}

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
