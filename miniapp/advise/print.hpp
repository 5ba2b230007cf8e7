// SPDX-License-Identifier: Apache-2.0
// Advice as text and JSON.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <miniapp/advise/max_model.hpp>
#include <miniapp/advise/networks.hpp>
#include <miniapp/advise/search.hpp>

namespace shardmark {

/// A paragraph for people who decide: what to use, why, what it costs beside the next best, what
/// limits it, and at which bandwidth the answer changes.
std::string verdict(const Advice& advice);

/// The verdict, a table of the fastest `top` candidates, and what was refused.
std::string advice_text(const Advice& advice, std::size_t top);

/// {"best", "candidates", "refused", "verdict", …}; docs/prediction.md lists the keys.
nlohmann::ordered_json advice_json(const Advice& advice, std::size_t top);

nlohmann::ordered_json networks_json(const std::vector<NetworkRow>& rows);

std::string max_model_text(const AdviseCase& question, const std::vector<MaxModel>& models);
nlohmann::ordered_json max_model_json(const std::vector<MaxModel>& models);

}  // namespace shardmark
