// SPDX-License-Identifier: Apache-2.0
// What slow ranks cost the others, in the printed report and in report.json.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include <miniapp/measure/result.hpp>

namespace shardmark {

/// The ranks that cause the most waiting. Empty where that says little: on a single host on which
/// no rank is made slower.
std::string stragglers_table(const Result& r);

/// The keys `rank_steps`, `host_steps` and, with the deck's section, `perturb`.
nlohmann::ordered_json stragglers_json(const Result& r);

}  // namespace shardmark
