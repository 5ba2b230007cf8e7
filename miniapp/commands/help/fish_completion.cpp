// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <core/text.hpp>
#include <miniapp/commands/help/command_help.hpp>
#include <miniapp/commands/help/completion.hpp>

namespace shardmark {
namespace {

// When the completions of this command apply: all of its words were typed, and none of those below.
std::string condition(const CommandHelp& command) {
  std::string text;
  std::string_view rest = command.name;
  while (!rest.empty()) {
    const auto space = std::min(rest.find(' '), rest.size());
    text += fmt::format("{}__fish_seen_subcommand_from {}", text.empty() ? "" : "; and ",
                        rest.substr(0, space));
    rest.remove_prefix(std::min(space + 1, rest.size()));
  }
  std::string below;
  for (const CommandHelp* c : commands_below(command.name))
    below += fmt::format(" {}", last_word(c->name));
  if (!below.empty())
    text += fmt::format("{}not __fish_seen_subcommand_from{}", text.empty() ? "" : "; and ", below);
  return text;
}

std::string values(const OptionHelp& o) {
  if (!o.choices.empty()) return shell_quoted(join(o.choices, " "));
  switch (o.offer) {
    case Offer::deck: return "'(__fish_complete_suffix .json)'";
    case Offer::folder: return "'(__fish_complete_directories)'";
    case Offer::nothing: break;
  }
  return "''";
}

std::string lines_of(const CommandHelp& command) {
  const std::string begin =
      fmt::format("complete -c shardmark -n {}", shell_quoted(condition(command)));
  std::string text;
  for (const CommandHelp* c : commands_below(command.name))
    text += fmt::format("{} -a {} -d {}\n", begin, last_word(c->name), shell_quoted(c->summary));
  for (const OptionHelp& o : command.options) {
    const std::string words = shell_quoted(first_sentence(o.text));
    if (o.positional())
      text += fmt::format("{} -a {} -d {}\n", begin, values(o), o.name);
    else if (o.value.empty())
      text += fmt::format("{} -l {} -d {}\n", begin, o.name.substr(2), words);
    else
      text += fmt::format("{} -l {} -x -a {} -d {}\n", begin, o.name.substr(2), values(o), words);
  }
  return text;
}

}  // namespace

std::string fish_completion() {
  std::string text =
      "# Completion of shardmark for fish: shardmark --completion fish | source\n"
      "complete -c shardmark -f\n"
      "complete -c shardmark -s h -l help -d 'Prints help and exits'\n";
  text += lines_of(program_help());
  for (const CommandHelp& c : commands_help()) text += lines_of(c);
  return text;
}

}  // namespace shardmark
