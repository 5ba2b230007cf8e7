// SPDX-License-Identifier: Apache-2.0
// report.json: everything that the printed report says and what it was made from.
#pragma once

#include <string>

#include <core/plan/deck/deck.hpp>
#include <core/plan/plan.hpp>
#include <miniapp/measure/result.hpp>

namespace shardmark {

/// Returns the contents of report.json, for the rank that writes it.
std::string report_json(const Deck& deck, const Program& program, const Result& result);

}  // namespace shardmark
