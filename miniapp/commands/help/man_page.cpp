// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <miniapp/commands/help/help_page.hpp>
#include <miniapp/commands/help/man_page.hpp>

namespace shardmark {
namespace {

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
