// SPDX-License-Identifier: Apache-2.0
// report.json: all contents of the printed report, and the values that they come from.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include <core/plan/deck/deck.hpp>
#include <core/plan/plan.hpp>
#include <miniapp/measure/result.hpp>

namespace shardmark {

/// {"param": "0123456789abcdef", "master": …}
nlohmann::ordered_json state_hash_json(const StateHashes& hashes);

/// Returns the contents of report.json, for the rank that writes it.
std::string report_json(const Deck& deck, const Program& program, const Result& result);

}  // namespace shardmark
