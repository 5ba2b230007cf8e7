// SPDX-License-Identifier: Apache-2.0
// What the program says about its own command line, as plain data. The parser, `--help`, the man
// page and the completion scripts all read this one description, so they cannot contradict each
// other.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardmark {

/// What a shell can offer to complete a value.
enum class Offer : std::uint8_t { nothing, deck, folder };

/// One option (its name begins with `--`) or one positional argument of a command.
struct OptionHelp {
  std::string_view name;  // "--ranks", "DECK"
  // The placeholder of its value; empty: a flag, or a positional argument.
  std::string_view value = {};
  std::string_view text;  // sentences
  Offer offer = Offer::nothing;
  bool required = false;
  bool repeatable = false;
  std::string_view preset = {};                // the default that help shows; empty: none
  std::vector<std::string_view> choices = {};  // the only values that are accepted; empty: any

  bool positional() const { return !name.starts_with('-'); }
};

/// One example of a command.
struct ExampleHelp {
  std::string_view line;  // what to type
  std::string_view text;  // what it does
};

/// One exit status and its meaning.
struct StatusHelp {
  int status = 0;
  std::string_view text;
};

/// One environment variable and its effect.
struct VariableHelp {
  std::string_view name;
  std::string_view text;
};

/// One command, or the program itself (its name is empty).
struct CommandHelp {
  std::string_view name;     // "run", "ckpt info"
  std::string_view summary;  // one line without a full stop
  // Paragraphs; one that begins with a blank is kept as it is.
  std::vector<std::string_view> description = {};
  std::vector<OptionHelp> options = {};  // positional arguments first; without --help
  std::vector<StatusHelp> statuses = {};
  std::vector<VariableHelp> environment = {};
  std::vector<ExampleHelp> examples = {};
};

/// The program itself.
const CommandHelp& program_help();

/// All commands in the order in which help lists them. A group, such as `ckpt`, comes before its
/// commands.
const std::vector<CommandHelp>& commands_help();

/// The command of that name; the program for "". Throws std::logic_error: there is none.
const CommandHelp& help_of(std::string_view name);

/// The option of that name. Throws std::logic_error: the command has none.
const OptionHelp& option_of(const CommandHelp& command, std::string_view name);

/// What an option does, with its choices and default.
std::string full_text(const OptionHelp& option);

/// The commands directly below `name`: those of the program ("run", "ckpt", …) or of a group
/// ("ckpt info", …). Empty for a command that has none.
std::vector<const CommandHelp*> commands_below(std::string_view name);

/// The last word of a command's name: "info" of "ckpt info".
std::string_view last_word(std::string_view name);

}  // namespace shardmark
