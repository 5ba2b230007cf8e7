// SPDX-License-Identifier: Apache-2.0
// prediction.html: predictions of a deck over rank counts as one page that needs no other file.
#pragma once

#include <string>
#include <vector>

#include <miniapp/predict/prediction.hpp>

namespace shardmark {

/// `points` ascend in their ranks; `next_change` is the sentence about it, or empty. The page is
/// well-formed XML.
std::string prediction_html(const Deck& deck, const Machine& machine,
                            const std::vector<PredictedPoint>& points,
                            const std::string& next_change);

}  // namespace shardmark
