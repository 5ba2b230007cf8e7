// SPDX-License-Identifier: Apache-2.0
// Fingerprints of decks and plans in reports: equal texts have equal hashes.
#pragma once

#include <string>
#include <string_view>

namespace shardmark {

/// Returns XXH3 (64 bits, seed 0) of the bytes as 16 lower-case hexadecimal digits.
std::string hash_hex(std::string_view bytes);

/// The same of a file's content, read piece by piece; "unreadable" if it cannot be read.
std::string file_hash_hex(const std::string& path);

}  // namespace shardmark
