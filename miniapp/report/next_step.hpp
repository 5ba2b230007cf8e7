// SPDX-License-Identifier: Apache-2.0
// What a user can do after a run.
#pragma once

#include <string>

#include <core/plan/deck/deck.hpp>
#include <miniapp/measure/result.hpp>

namespace shardmark {

/// Returns one line without its end: the page to open in the folder `out`, and after it the next
/// step for this result: what explains a failed check, how to compare, what an official figure
/// needs.
std::string next_step(const Deck& deck, const Result& result, const std::string& out);

}  // namespace shardmark
