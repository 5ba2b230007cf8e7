// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <core/text.hpp>
#include <miniapp/advise/answer/configuration.hpp>
#include <miniapp/advise/knobs.hpp>

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
                     framework == Framework::shardmark
                         ? fmt::format(" under the schedule {}", to_string(c.schedule))
                         : std::string(),
                     c.batch.micro, plural(c.batch.accumulation, "accumulation step"),
                     c.recomputes ? "with" : "without", more.empty() ? "" : ", ", more);
}

}  // namespace shardmark
