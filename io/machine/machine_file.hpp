// SPDX-License-Identifier: Apache-2.0
// Machine files. docs/machines.md explains every key.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <core/plan/price/machine.hpp>

namespace shardmark {

class KeyReader;

/// Reads a machine file, given as a path or by the name of a shipped one (`dgx-h100`). Throws
/// DeckError for anything that is malformed or absurd, in one line that names file, key, value,
/// bound and remedy.
Machine read_machine_file(const std::string& text);

/// Reads the switches of `software`, in a machine file or beside a published measurement. Throws
/// DeckError.
void read_software(KeyReader& reader, Software& software);

/// Throws DeckError if the file at `path` does not describe as many ranks: they need a level
/// between nodes that is missing, or more nodes than the machine has.
void require_ranks(const Machine& machine, const std::string& path, int ranks, int ranks_per_node);

/// What a prediction on this machine must do without or should not trust, one sentence each.
std::vector<std::string> check_machine(const Machine& machine);

/// The file's text as JSON; read_machine_file gives the same machine back.
nlohmann::ordered_json machine_json(const Machine& machine);

/// `machine_json` as text in which each list of points has one line per point.
std::string machine_text(const Machine& machine);

}  // namespace shardmark
