// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <core/text.hpp>
#include <miniapp/commands/help/command_help.hpp>
#include <miniapp/commands/help/completion.hpp>

namespace shardmark {
namespace {

// A text inside a specification of _arguments or _describe, where brackets and colons have a
// meaning.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string action(const OptionHelp& o) {
  if (!o.choices.empty()) return fmt::format("({})", join(o.choices, " "));
  switch (o.offer) {
    case Offer::deck: return R"(_files -g "*.json")";
    case Offer::folder: return "_files -/";
    case Offer::nothing: break;
  }
  return " ";
}

std::string specification(const OptionHelp& o) {
  if (o.positional()) return fmt::format("1:{}:{}", o.name, action(o));
  std::string spec =
      fmt::format("{}{}[{}]", o.repeatable ? "*" : "", o.name, escaped(first_sentence(o.text)));
  if (!o.value.empty()) spec += fmt::format(":{}:{}", escaped(o.value), action(o));
  return spec;
}

std::string branch(const CommandHelp& command) {
  std::string text = fmt::format("    {})\n      _arguments -C", shell_quoted(command.name));
  for (const OptionHelp& o : command.options)
    text += fmt::format(" \\\n        {}", shell_quoted(specification(o)));
  text += " \\\n        '(-h --help)'{-h,--help}'[Prints help and exits]'";
  const auto below = commands_below(command.name);
  if (below.empty()) return text + " ;;\n";
  text += " \\\n        '1:command:->command'\n      commands=(";
  for (const CommandHelp* c : below)
    text +=
        fmt::format("\n        {}",
                    shell_quoted(fmt::format("{}:{}", last_word(c->name), escaped(c->summary))));
  return text + ") ;;\n";
}

}  // namespace

std::string zsh_completion() {
  std::string names, branches = branch(program_help());
  for (const CommandHelp& c : commands_help()) {
    const auto space = c.name.rfind(' ');
    const std::string_view group = space == std::string_view::npos ? "" : c.name.substr(0, space);
    names += fmt::format("{}{}", names.empty() ? "" : "|",
                         shell_quoted(fmt::format("{} {}", group, last_word(c.name))));
    branches += branch(c);
  }
  return fmt::format(R"(#compdef shardmark
# Completion of shardmark for zsh: source <(shardmark --completion zsh), or a file _shardmark in $fpath
_shardmark() {{
  local curcontext=$curcontext state line command=
  local -a commands
  typeset -A opt_args
  while (( CURRENT > 2 )); do
    case "$command $words[2]" in
      {}) command=${{command:+$command }}$words[2] ;;
      *) break ;;
    esac
    shift words
    (( CURRENT-- ))
  done
  case $command in
{}  esac
  [[ $state == command ]] && _describe command commands
}}
if [[ $funcstack[1] == _shardmark ]]; then
  _shardmark "$@"
else
  compdef _shardmark shardmark
fi
)",
                     names, branches);
}

}  // namespace shardmark
