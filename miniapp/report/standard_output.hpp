// SPDX-License-Identifier: Apache-2.0
// Printing whose errors are found.
#pragma once

#include <string_view>

namespace shardmark {

/// Writes to standard output and flushes it, so that a full disk is found here and not after the
/// exit status is decided. Local. Throws IoError.
void print_out(std::string_view text);

}  // namespace shardmark
