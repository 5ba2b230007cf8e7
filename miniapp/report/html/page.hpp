// SPDX-License-Identifier: Apache-2.0
// Pages that need no other file, no network and no script: report.html, the whole report of a run,
// and prediction.html, predictions of a deck over rank counts.
#pragma once

#include <string>
#include <vector>

#include <miniapp/measure/result.hpp>

namespace shardmark {

/// Text from the deck, from files and from the environment is escaped. The page is well-formed XML.
std::string report_html(const Deck& deck, const Program& program, const Result& result);

/// `points` ascend in their ranks; `next_change` is the sentence about it, or empty. The page is
/// well-formed XML.
std::string prediction_html(const Deck& deck, const Machine& machine,
                            const std::vector<PredictedPoint>& points,
                            const std::string& next_change);

}  // namespace shardmark
