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

// Text as roff takes it literally: backslashes and hyphens escaped, quoted words bold, and no line
// that a leading dot or quote would make a request.
std::string roff(std::string_view text) {
  std::string out;
  bool bold = false, line_start = true;
  for (const char c : text) {
    if (line_start && (c == '.' || c == '\'')) out += "\\&";
    line_start = c == '\n';
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else if (c == '`')
      out += (bold = !bold) ? "\\fB" : "\\fR";
    else
      out += c;
  }
  return out;
}

std::string paragraph(std::string_view text) {
  return text.starts_with(' ') ? fmt::format(".PP\n.nf\n{}\n.fi\n", roff(text))
                               : fmt::format(".PP\n{}\n", roff(text));
}

std::string entry(const std::string& tag, std::string_view text) {
  return fmt::format(".TP\n{}\n{}\n", tag, roff(text));
}

std::string option(const OptionHelp& o) {
  return entry(o.positional() ? fmt::format("\\fI{}\\fR", roff(o.name))
               : o.value.empty()
                   ? fmt::format("\\fB{}\\fR", roff(o.name))
                   : fmt::format("\\fB{}\\fR \\fI{}\\fR", roff(o.name), roff(o.value)),
               full_text(o));
}

std::string options(const CommandHelp& command) {
  std::string text;
  for (const OptionHelp& o : command.options) text += option(o);
  return text + entry("\\fB\\-h\\fR, \\fB\\-\\-help\\fR", "Prints help and exits.");
}

std::string statuses(const CommandHelp& command) {
  std::string text;
  for (const StatusHelp& s : command.statuses)
    text += entry(fmt::format("\\fB{}\\fR", s.status), s.text);
  return text;
}

std::string environment(const CommandHelp& command) {
  std::string text;
  for (const VariableHelp& v : command.environment)
    text += entry(fmt::format("\\fB{}\\fR", roff(v.name)), v.text);
  return text;
}

std::string examples(const CommandHelp& command) {
  std::string text;
  for (const ExampleHelp& e : command.examples)
    text +=
        fmt::format(".PP\n{}\n.PP\n.RS 4\n.nf\n\\fB{}\\fR\n.fi\n.RE\n", roff(e.text), roff(e.line));
  return text;
}

std::string titled(std::string_view title, const std::string& body) {
  return body.empty() ? "" : fmt::format(".PP\n\\fB{}\\fR\n{}", title, body);
}

std::string command_section(const CommandHelp& c) {
  std::string text = fmt::format(".SS {}\n", roff(usage(c)));
  for (const std::string_view p : c.description) text += paragraph(p);
  return text + options(c) + titled("Exit status", statuses(c)) +
         titled("Environment", environment(c)) + titled("Examples", examples(c));
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

std::string man_page(const std::string& version) {
  const CommandHelp& program = program_help();
  std::string text =
      fmt::format(".TH SHARDMARK 1 \"\" \"ShardMark {}\" \"User Commands\"\n", roff(version));
  text += fmt::format(".SH NAME\nshardmark \\- {}\n", roff(program.summary));
  text += ".SH SYNOPSIS\n";
  for (const CommandHelp& c : commands_help())
    if (commands_below(c.name).empty()) text += fmt::format(".B {}\n.br\n", roff(usage(c)));
  text += ".SH DESCRIPTION\n";
  for (const std::string_view p : program.description) text += paragraph(p);
  text += ".SH OPTIONS\n" + options(program);
  text += ".SH COMMANDS\n";
  for (const CommandHelp& c : commands_help())
    if (commands_below(c.name).empty()) text += command_section(c);
  text += ".SH \"EXIT STATUS\"\n" + statuses(program);
  text += ".SH ENVIRONMENT\n" + environment(program);
  text += ".SH EXAMPLES\n" + examples(program);
  return text;
}

}  // namespace shardmark
