// SPDX-License-Identifier: Apache-2.0
// Fingerprints of decks and plans in reports: equal texts have equal hashes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shardmark {

/// Returns XXH3 (64 bits, seed 0) of the bytes as 16 lower-case hexadecimal digits.
std::string hash_hex(std::string_view bytes);

/// The same of a file's content, read piece by piece; "unreadable" if it cannot be read.
std::string file_hash_hex(const std::string& path);

/// What tells the content of one file from that of another, wherever the files lie.
struct FileIdentity {
  std::string hash;  // file_hash_hex; empty: the file is larger than `most_hashed_bytes`
  std::int64_t bytes = 0;
  bool operator==(const FileIdentity&) const = default;
};
/// Larger files are told apart by their size alone, because reading them takes too long.
inline constexpr std::int64_t most_hashed_bytes = std::int64_t{1} << 30;

/// Returns the identity of a file; hash "unreadable" and no bytes if it cannot be read.
FileIdentity identify_file(const std::string& path);

}  // namespace shardmark
