// SPDX-License-Identifier: Apache-2.0
// The program and the libraries that a rank has loaded, with hashes of their files: ranks that run
// different binaries make figures that nobody can repeat.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <miniapp/measure/result.hpp>
#include <miniapp/ranks/peers.hpp>

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

/// File name without its folder, and the hash (XXH3, 64 bits, hexadecimal) of the file's content;
/// "unreadable" if it cannot be read. Not collective.
std::map<std::string, std::string> loaded_binaries();

/// Collective. Which rank on which host has loaded something else than rank 0, as a text; empty if
/// none has.
std::string compare_binaries(const std::map<std::string, std::string>& mine,
                             const std::vector<RankInfo>& ranks, Peers& peers);

}  // namespace shardmark
