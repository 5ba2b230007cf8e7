// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <io/deck/deck_reader.hpp>
#include <io/json/json_source.hpp>
#include <miniapp/tools/advise/framework.hpp>

namespace shardmark {
namespace {

Schedule own_schedule(Framework framework) {
  return framework == Framework::torch ? Schedule::torch : Schedule::deepspeed;
}

bool is_filled_object(const Json& deck, const char* section) {
  const auto it = deck.find(section);
  return it != deck.end() && it->is_object() && !it->empty();
}

}  // namespace

std::vector<Schedule> schedules_of(Framework framework) {
  if (framework == Framework::shardmark)
    return {all_values<Schedule>.begin(), all_values<Schedule>.end()};
  return {own_schedule(framework)};
}

Framework framework_of(std::string_view name, const std::string& deck,
                       const std::vector<std::string>& sets) {
  for (const Framework f : all_values<Framework>)
    if (traits(f).name == name) return f;
  const Json text = Json::parse(deck_text(deck, sets));
  const bool follows_torch =
      text.value(Json::json_pointer("/run/schedule"), Json()) == traits(Schedule::torch).name;
  if (follows_torch || is_filled_object(text, "torch")) return Framework::torch;
  return is_filled_object(text, "deepspeed") ? Framework::deepspeed : Framework::shardmark;
}

std::vector<std::string> sets_for(Framework framework) {
  if (framework == Framework::shardmark) return {};
  return {fmt::format("run.schedule={}", to_string(own_schedule(framework)))};
}

}  // namespace shardmark
