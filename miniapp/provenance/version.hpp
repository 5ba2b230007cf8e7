// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

namespace shardmark {

/// "0.2.0"
std::string version();

/// The commit that the program was built from, `v0.2.0-12-gabc1234-dirty`; empty without Git. Known
/// to the program alone, not to the libraries: only the program is linked again after a commit.
std::string commit();

/// The version and what the program was built from and with: commit, compiler, libraries, one per
/// line. MPI need not be initialised.
std::string version_page(const std::string& commit);

/// Versions of ShardMark, of the libraries that this binary uses, of the compiler and of the
/// system.
std::map<std::string, std::string> library_versions();

/// Returns the current time in UTC, such as "2026-11-23T12:30:00Z".
std::string utc_now();

}  // namespace shardmark
