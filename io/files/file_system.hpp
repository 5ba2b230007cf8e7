// SPDX-License-Identifier: Apache-2.0
// What lies below a file: the kind of its file system, and what the system has cached of it.
#pragma once

#include <string>

namespace shardmark {

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
