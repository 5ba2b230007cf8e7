// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <core/error.hpp>

namespace shardmark {

/// Whether this is the one process of a launch that prints. It works before MPI is initialized, and
/// for commands that do not use MPI.
bool speaks_for_launch();

/// Prints what is wrong with the arguments of a command ("ckpt info"; "" for the program), once for
/// all processes of a launch. Returns the exit status.
ExitStatus arguments_error(const std::string& what, const std::string& command);

}  // namespace shardmark
