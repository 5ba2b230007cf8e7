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

/// File name without its folder, and the hash (XXH3, 64 bits, hexadecimal) of the file's content;
/// "unreadable" if it cannot be read. Not collective.
std::map<std::string, std::string> loaded_binaries();

/// Collective. Which rank on which host has loaded something else than rank 0, as a text; empty if
/// none has.
std::string compare_binaries(const std::map<std::string, std::string>& mine,
                             const std::vector<RankInfo>& ranks, Peers& peers);

}  // namespace shardmark
