// SPDX-License-Identifier: Apache-2.0
// report.html: the whole report as one page that needs nothing else, no network, no script.
#pragma once

#include <string>

#include <core/plan/deck/deck.hpp>
#include <core/plan/plan.hpp>
#include <miniapp/measure/result.hpp>

namespace shardmark {

/// What comes from deck, files or environment is escaped. The page is well-formed XML too.
std::string report_html(const Deck& deck, const Program& program, const Result& result);

}  // namespace shardmark
