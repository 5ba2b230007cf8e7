// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <stdexcept>

#include <fmt/core.h>

#include <core/text.hpp>
#include <miniapp/commands/help/command_help.hpp>
#include <miniapp/commands/help/help_page.hpp>

namespace shardmark {

std::string shell_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string(R"('\'')") : std::string(1, c);
  return out + "'";
}

namespace {

// The first sentence of a text, without its full stop and without backticks.
std::string first_sentence(std::string_view text) {
  std::string sentence(text.substr(0, text.find(". ")));
  if (sentence.ends_with('.')) sentence.pop_back();
  sentence.erase(std::remove(sentence.begin(), sentence.end(), '`'), sentence.end());
  return sentence;
}

// What completes a value, in the words of each shell.
struct OfferWords {
  std::string_view bash, fish, zsh;
};

OfferWords words_of(Offer offer) {
  switch (offer) {
    case Offer::deck: return {"deck", "'(__fish_complete_suffix .json)'", R"(_files -g "*.json")"};
    case Offer::folder: return {"folder", "'(__fish_complete_directories)'", "_files -/"};
    case Offer::nothing: break;
  }
  return {"", "''", " "};
}

// Branches of `case` that name all commands as they are typed, "GROUP WORD".
std::string typed_names() {
  std::vector<std::string> names;
  for (const CommandHelp& c : commands_help()) {
    const auto space = c.name.rfind(' ');
    const std::string_view group = space == std::string_view::npos ? "" : c.name.substr(0, space);
    names.push_back(shell_quoted(fmt::format("{} {}", group, last_word(c.name))));
  }
  return join(names, "|");
}

// The branch of `case $command`: what can come next in this command.
std::string words_branch(const CommandHelp& command) {
  std::string words, kind;
  for (const CommandHelp* below : commands_below(command.name))
    words += fmt::format("{} ", last_word(below->name));
  for (const OptionHelp& o : command.options)
    if (o.positional())
      kind = words_of(o.offer).bash;
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
                          join(o.choices, " "), words_of(o.offer).bash);
  return text;
}

std::string bash_completion() {
  std::string words = words_branch(program_help()), values = value_branches(program_help());
  for (const CommandHelp& c : commands_help()) {
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
                     typed_names(), words, values);
}

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
  return o.choices.empty() ? std::string(words_of(o.offer).fish)
                           : shell_quoted(join(o.choices, " "));
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

std::string fish_completion() {
  std::string text =
      "# Completion of shardmark for fish: shardmark --completion fish | source\n"
      "complete -c shardmark -f\n"
      "complete -c shardmark -s h -l help -d 'Prints help and exits'\n";
  text += lines_of(program_help());
  for (const CommandHelp& c : commands_help()) text += lines_of(c);
  return text;
}

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
  return o.choices.empty() ? std::string(words_of(o.offer).zsh)
                           : fmt::format("({})", join(o.choices, " "));
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

std::string zsh_completion() {
  std::string branches = branch(program_help());
  for (const CommandHelp& c : commands_help()) branches += branch(c);
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
                     typed_names(), branches);
}

}  // namespace

std::string completion(std::string_view shell) {
  if (shell == "bash") return bash_completion();
  if (shell == "zsh") return zsh_completion();
  if (shell == "fish") return fish_completion();
  throw std::logic_error("no completion for the shell " + std::string(shell));
}

}  // namespace shardmark
