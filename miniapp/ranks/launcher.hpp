// SPDX-License-Identifier: Apache-2.0
// What the launcher of the job says about this process through the environment, before MPI_Init and
// without it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace shardmark {

/// Reads an environment variable: nullptr if it is not set. Tests give their own.
using ReadVariable = std::function<const char*(const char*)>;
const char* variable_of_process(const char* name);

/// The rank that the launcher gave this process; 0 without a launcher.
int launched_rank(const ReadVariable& read = variable_of_process);

/// Why this program must not run in a world of `world` ranks, in one sentence; nothing if it may.
/// It must not if a launcher has started more processes, and no launcher says `world`: this happens
/// under the launcher of another MPI, where each process becomes a world of its own, and every one
/// of them would report a result. `library` is the name of the program's MPI. Pure.
std::optional<std::string> wrong_launcher(int world, std::string_view library,
                                          const ReadVariable& read = variable_of_process);

/// The name of this host, for messages; empty if the system does not tell it.
std::string host_of_process();

}  // namespace shardmark
