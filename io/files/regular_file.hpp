// SPDX-License-Identifier: Apache-2.0
// Reads files that must be regular files and no larger than the reader expects. A pipe instead of a
// file would make the reader wait for ever, and a large sparse file would fill its memory.
// What lies below a file: the kind of its file system, and what the system has cached of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <core/owned_fd.hpp>

namespace shardmark {

/// A regular file that is open, and its size.
struct OpenFile {
  OwnedFd fd;  // for reading
  std::int64_t bytes = 0;
};

/// Opens a regular file for reading and never waits. `remedy` ends the messages. Throws IoError if
/// the file is missing, unreadable, or not a regular file.
OpenFile open_regular_file(const std::string& path, std::string_view remedy);

/// Returns the content of a file. Throws IoError as above, and also if the file is larger than
/// `max_bytes`.
std::string read_regular_file(const std::string& path, std::int64_t max_bytes,
                              std::string_view remedy);
/// The same, but returns nothing if there is no such file.
std::optional<std::string> read_regular_file_if_there(const std::string& path,
                                                      std::int64_t max_bytes,
                                                      std::string_view remedy);

/// The kind of the file system that holds an existing file or folder, as Linux's mount table names
/// it: "ext4", "lustre", "nfs4", "tmpfs". Empty if it is not known.
std::string file_system_of(const std::string& path);

/// Asks the system to drop what it has cached of a file that is on the disk, so that the next
/// reader reads the disk. False where it does not take the request.
bool forget_cached(const std::string& path);

/// Whether more of a file is in memory than the few pages that the system may keep for a while. All
/// of it is where the file lies on a tmpfs. False where the system does not say, as where a file
/// system goes around the page cache.
bool is_cached(const std::string& path);

}  // namespace shardmark
