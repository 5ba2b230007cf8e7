// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <core/error.hpp>

namespace shardmark {

/// Says what is wrong with the arguments, once for all processes of a launch though MPI is not up
/// yet. Returns the exit status.
int arguments_error(const std::string& what);

}  // namespace shardmark
