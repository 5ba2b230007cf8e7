// SPDX-License-Identifier: Apache-2.0
// Zip archives of small files, made and read as a whole.
#pragma once

#include <map>
#include <string>

namespace shardmark {

/// The contents of files by their names in an archive, such as "runs/1/report.json".
using ArchiveFiles = std::map<std::string, std::string>;

/// Writes an archive whole or not at all, and replaces an older one. The same files give the same
/// bytes. Throws IoError.
void write_archive(const std::string& path, const ArchiveFiles& files);

/// Returns the files of an archive. Throws IoError if it is missing, damaged or not a zip archive,
/// if a name is absolute, contains "..", or occurs twice, or if it has more than 4096 files or more
/// than 256 MiB.
ArchiveFiles read_archive(const std::string& path);

}  // namespace shardmark
