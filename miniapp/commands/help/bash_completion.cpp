// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <core/text.hpp>
#include <miniapp/commands/help/command_help.hpp>
#include <miniapp/commands/help/completion.hpp>

namespace shardmark {
namespace {

std::string_view kind_of(Offer offer) {
  switch (offer) {
    case Offer::deck: return "deck";
    case Offer::folder: return "folder";
    case Offer::nothing: break;
  }
  return "";
}

// The branch of `case $command`: what can come next in this command.
std::string words_branch(const CommandHelp& command) {
  std::string words, kind;
  for (const CommandHelp* below : commands_below(command.name))
    words += fmt::format("{} ", last_word(below->name));
  for (const OptionHelp& o : command.options)
    if (o.positional())
      kind = kind_of(o.offer);
    else
      words += fmt::format("{} ", o.name);
  return fmt::format("    {}) words='{}-h --help' kind={} ;;\n", shell_quoted(command.name), words,
                     kind);
}

// The branches of `case "$command $prev"`: the values of this command's options.
std::string value_branches(const CommandHelp& command) {
  std::string text;
  for (const OptionHelp& o : command.options)
    if (!o.value.empty() && !o.positional())
      text += fmt::format("    {}) words='{}' kind={} ;;\n",
                          shell_quoted(fmt::format("{} {}", command.name, o.name)),
                          join(o.choices, " "), kind_of(o.offer));
  return text;
}

}  // namespace

std::string bash_completion() {
  std::string names, words = words_branch(program_help()), values = value_branches(program_help());
  for (const CommandHelp& c : commands_help()) {
    const auto space = c.name.rfind(' ');
    const std::string_view group = space == std::string_view::npos ? "" : c.name.substr(0, space);
    names += fmt::format("{}{}", names.empty() ? "" : "|",
                         shell_quoted(fmt::format("{} {}", group, last_word(c.name))));
    words += words_branch(c);
    values += value_branches(c);
  }
  return fmt::format(R"(# Completion of shardmark for bash: source <(shardmark --completion bash)
_shardmark() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} command= words= kind= i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$command ${{COMP_WORDS[i]}}" in
      {}) command=${{command:+$command }}${{COMP_WORDS[i]}} ;;
    esac
  done
  case $command in
{}  esac
  case "$command $prev" in
{}  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
  case $kind in
    deck) COMPREPLY+=($(compgen -f -X '!*.json' -- "$cur") $(compgen -d -- "$cur")) ;;
    folder) COMPREPLY+=($(compgen -d -- "$cur")) ;;
  esac
}}
complete -o filenames -F _shardmark shardmark
)",
                     names, words, values);
}

}  // namespace shardmark
