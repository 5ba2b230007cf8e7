// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <core/error.hpp>

namespace shardmark {

/// Whether this process prints for its launch, before MPI is up or without it: one process does.
bool speaks_for_launch();

/// Says what is wrong with the arguments, once for all processes of a launch though MPI is not up
/// yet. Returns the exit status.
int arguments_error(const std::string& what);

}  // namespace shardmark
