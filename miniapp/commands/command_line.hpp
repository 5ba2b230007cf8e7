// SPDX-License-Identifier: Apache-2.0
// The command line of the program.
#pragma once

#include <string>

#include <core/error.hpp>

namespace shardmark {

/// Parses the arguments of `main` and calls the command that they name. `commit` is what the
/// program was built from. Wrong arguments are reported here; other errors of a command are thrown.
ExitStatus run_command_line(int argc, char** argv, const std::string& commit);

/// Whether this is the one process of a launch that prints. It works before MPI is initialized, and
/// for commands that do not use MPI.
bool speaks_for_launch();

/// Prints what is wrong with the arguments of a command ("ckpt info"; "" for the program), once for
/// all processes of a launch. Returns the exit status.
ExitStatus arguments_error(const std::string& what, const std::string& command);

}  // namespace shardmark
