// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <stdexcept>

#include <fmt/core.h>

#include <core/text.hpp>
#include <miniapp/commands/help/command_help.hpp>

namespace shardmark {

const CommandHelp& help_of(std::string_view name) {
  if (name.empty()) return program_help();
  const auto& all = commands_help();
  const auto found =
      std::ranges::find_if(all, [&](const CommandHelp& c) { return c.name == name; });
  if (found == all.end()) throw std::logic_error(fmt::format("no help for the command {}", name));
  return *found;
}

const OptionHelp& option_of(const CommandHelp& command, std::string_view name) {
  for (const OptionHelp& option : command.options)
    if (option.name == name) return option;
  throw std::logic_error(fmt::format("help of {}: no option {}", command.name, name));
}

std::string full_text(const OptionHelp& option) {
  std::string text(option.text);
  if (!option.choices.empty()) text += fmt::format(" One of {}.", join(option.choices, ", "));
  if (option.required && !option.positional()) text += " Required.";
  if (!option.preset.empty()) text += fmt::format(" Default: {}.", option.preset);
  return text;
}

std::vector<const CommandHelp*> commands_below(std::string_view name) {
  const std::string prefix = name.empty() ? "" : std::string(name) + " ";
  std::vector<const CommandHelp*> below;
  for (const CommandHelp& c : commands_help())
    if (c.name.starts_with(prefix) && c.name.find(' ', prefix.size()) == std::string_view::npos)
      below.push_back(&c);
  return below;
}

std::string_view last_word(std::string_view name) {
  return name.substr(name.rfind(' ') + 1);
}

}  // namespace shardmark
