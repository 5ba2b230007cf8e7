// SPDX-License-Identifier: Apache-2.0
// Advice as text and JSON.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <miniapp/tools/advise/max_model.hpp>
#include <miniapp/tools/advise/networks.hpp>
#include <miniapp/tools/advise/search.hpp>

namespace shardmark {

/// A paragraph for people who decide: what to use, what that changes against the deck, what it
/// gives, what it costs beside the deck as it is and beside the other stages, what limits it, and
/// with which networks another answer would be faster.
std::string verdict(const Advice& advice);

/// The commands that check the advice, a line each.
std::string commands_text(const std::vector<std::string>& commands);

/// The verdict, the commands that check it, a table of the fastest `top` candidates, the keys
/// without effect there, and what was refused.
std::string advice_text(const Advice& advice, std::size_t top,
                        const std::vector<std::string>& commands);

/// {"for", "best", "candidates", "refused", "verdict", …}; docs/advise.md lists the keys. With
/// `top` above 0 at most so many candidates.
nlohmann::ordered_json advice_json(const Advice& advice, std::size_t top);

nlohmann::ordered_json networks_json(const NetworkTable& table);

/// A table of the rates, stage 3 beside the lowest stage that fits, and why a stage has none.
std::string network_text(const AdviseCase& question, const NetworkTable& table);

/// An SVG: a bar per network and stage; a stage that does not fit has no bar but a mark.
std::string network_picture(const AdviseCase& question, const NetworkTable& table);

std::string max_model_text(const AdviseCase& question, const MaxModels& models);
nlohmann::ordered_json max_model_json(const AdviseCase& question, const MaxModels& models);

}  // namespace shardmark
