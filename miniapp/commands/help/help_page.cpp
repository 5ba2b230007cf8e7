// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/core.h>

#include <miniapp/commands/help/help_page.hpp>

namespace shardmark {
namespace {

constexpr std::size_t line_width = 80;
constexpr std::size_t text_column = 26;

// The text in lines that begin with `indent` blanks; a continued example ends its line with `mark`.
std::string wrapped(std::string_view text, std::size_t indent, std::string_view mark = "") {
  std::string all;
  std::string line(indent, ' ');
  bool empty = true;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    if (!empty && line.size() + 1 + word.size() + mark.size() > line_width) {
      all += line + std::string(mark) + '\n';
      line.assign(mark.empty() ? indent : indent + 4, ' ');
      empty = true;
    }
    if (!empty) line += ' ';
    line += word;
    empty = false;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return all + line + '\n';
}

// A name in the left column and its text in the right one, below the name where that is too long.
std::string row(std::string_view name, std::string_view text) {
  std::string body = wrapped(text, text_column);
  const std::string left = fmt::format("  {}", name);
  if (left.size() + 2 > text_column) return left + '\n' + body;
  return left + body.substr(left.size());
}

std::string rows_of(const std::vector<OptionHelp>& options, bool positional) {
  std::string text;
  for (const OptionHelp& o : options)
    if (o.positional() == positional)
      text += row(o.value.empty() ? std::string(o.name) : fmt::format("{} {}", o.name, o.value),
                  full_text(o));
  return text;
}

std::string section(std::string_view title, const std::string& body) {
  return body.empty() ? "" : fmt::format("\n{}:\n{}", title, body);
}

}  // namespace

std::string usage(const CommandHelp& command) {
  std::string text = command.name.empty() ? "shardmark" : fmt::format("shardmark {}", command.name);
  for (const OptionHelp& o : command.options)
    if (o.required && !o.positional()) text += fmt::format(" {} {}", o.name, o.value);
  if (!command.options.empty()) text += " [OPTIONS]";
  for (const OptionHelp& o : command.options)
    if (o.positional()) text += fmt::format(" {}", o.name);
  if (!commands_below(command.name).empty()) text += " COMMAND ...";
  return text;
}

std::string help_page(const CommandHelp& command) {
  std::string text = fmt::format("Usage: {}\n", usage(command));
  for (const std::string_view paragraph : command.description)
    text +=
        '\n' + (paragraph.starts_with(' ') ? std::string(paragraph) + '\n' : wrapped(paragraph, 0));

  std::string commands;
  for (const CommandHelp* below : commands_below(command.name)) {
    const auto inner = commands_below(below->name);
    if (inner.empty()) commands += row(below->name, below->summary);
    for (const CommandHelp* last : inner) commands += row(last->name, last->summary);
  }
  text += section("Commands", commands);
  text += section("Arguments", rows_of(command.options, true));
  text += section("Options", rows_of(command.options, false) +
                                 row("-h, --help", "Prints this help and exits."));

  std::string statuses, variables, examples;
  for (const StatusHelp& s : command.statuses)
    statuses += fmt::format("  {:<2}  ", s.status) + wrapped(s.text, 6).substr(6);
  for (const VariableHelp& v : command.environment)
    variables += wrapped(v.name, 2) + wrapped(v.text, 6);
  for (const ExampleHelp& e : command.examples)
    examples += wrapped(e.line, 2, " \\") + wrapped(e.text, 6);
  text += section("Exit status", statuses);
  text += section("Environment", variables);
  text += section("Examples", examples);
  return text;
}

}  // namespace shardmark
