// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <miniapp/commands/help/command_help.hpp>

namespace shardmark {

/// The words that a command line of this command needs: "shardmark plan --ranks N [OPTIONS] DECK".
std::string usage(const CommandHelp& command);

/// What `--help` prints: usage, description, arguments, options, commands, exit statuses,
/// environment and examples, in lines of at most 80 characters.
std::string help_page(const CommandHelp& command);

/// The help of all commands as one man page in section 1, in roff with the macros of man(7).
std::string man_page(const std::string& version);

}  // namespace shardmark
