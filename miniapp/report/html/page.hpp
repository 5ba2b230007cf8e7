// SPDX-License-Identifier: Apache-2.0
// report.html: the whole report as one page that needs no other file, no network and no script.
#pragma once

#include <string>

#include <core/plan/deck/deck.hpp>
#include <core/plan/plan.hpp>
#include <miniapp/measure/result.hpp>

namespace shardmark {

/// Text from the deck, from files and from the environment is escaped. The page is well-formed XML.
std::string report_html(const Deck& deck, const Program& program, const Result& result);

}  // namespace shardmark
