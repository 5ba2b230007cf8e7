// SPDX-License-Identifier: Apache-2.0
// The command line of the program.
#pragma once

#include <string>

#include <core/error.hpp>

namespace shardmark {

/// Parses the arguments of `main` and calls the command that they name. `commit` is what the
/// program was built from. Wrong arguments are reported here; other errors of a command are thrown.
ExitStatus run_command_line(int argc, char** argv, const std::string& commit);

}  // namespace shardmark
