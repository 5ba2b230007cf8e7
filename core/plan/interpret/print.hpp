// SPDX-License-Identifier: Apache-2.0
// Prints a program for people and for scripts. The text is a readable specification of a ZeRO
// stage, dot draws lanes and order edges, and other people's scripts rely on the JSON
// (docs/output.md).
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include <core/plan/interpret/footprint.hpp>
#include <core/plan/interpret/volume.hpp>
#include <core/plan/plan.hpp>

namespace shardmark {

/// One line per event, segment by segment, with the live bytes at both ends. The plan hash is the
/// hash of this text.
std::string print_text(const Program& program);

/// Graphviz: one cluster per segment, one column per lane, and dashed order edges.
std::string print_dot(const Program& program);

/// The object that `plan --format json` prints. `budgets` are those of the deck; a tier with a
/// budget has the key "fits".
nlohmann::ordered_json print_json(const Program& program, const Budgets& budgets,
                                  const std::string& plan_hash);

/// {"param": 4096, …}: the bytes of the categories that have any.
nlohmann::ordered_json category_json(const CategoryBytes& bytes);
/// {"all_gather": {"calls", "elems", "bytes"}, …}.
nlohmann::ordered_json volume_json(const Volume& volume);

/// The names that the recordings of DeepSpeed give a phase and its micro-batch: "f0", "b2", "s",
/// "init".
std::string phase_name(Phase phase, int micro_batch);

}  // namespace shardmark
