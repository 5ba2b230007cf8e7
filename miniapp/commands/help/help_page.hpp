// SPDX-License-Identifier: Apache-2.0
// What is made of the help of the commands: pages, and scripts that complete them in a shell.
#pragma once

#include <string>
#include <string_view>

#include <miniapp/commands/help/command_help.hpp>

namespace shardmark {

/// The words that a command line of this command needs: "shardmark plan --ranks N [OPTIONS] DECK".
std::string usage(const CommandHelp& command);

/// What `--help` prints: usage, description, arguments, options, commands, exit statuses,
/// environment and examples, in lines of at most 80 characters.
std::string help_page(const CommandHelp& command);

/// The help of all commands as one man page in section 1, in roff with the macros of man(7).
std::string man_page(const std::string& version);

/// A script for `shell` (bash, zsh or fish) that completes commands, options and their values, to
/// be sourced or installed. Throws std::logic_error: another shell.
std::string completion(std::string_view shell);

/// Text between single quotes, as every shell here takes it literally.
std::string shell_quoted(std::string_view text);

}  // namespace shardmark
