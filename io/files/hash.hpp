// SPDX-License-Identifier: Apache-2.0
// Fingerprints of decks and plans in reports: equal texts have equal hashes.
#pragma once

#include <string>
#include <string_view>

namespace shardmark {

/// Returns XXH3 (64 bits, seed 0) of the bytes as 16 lower-case hexadecimal digits.
std::string hash_hex(std::string_view bytes);

}  // namespace shardmark
