// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace shardmark {

/// Writes to standard output, at once: a full disk behind it is noticed here, not after the exit
/// status is settled. Local. Throws IoError.
void print_out(std::string_view text);

}  // namespace shardmark
