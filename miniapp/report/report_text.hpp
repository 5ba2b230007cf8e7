// SPDX-License-Identifier: Apache-2.0
// The report that a run ends with, on standard output. Scripts read its last three lines.
#pragma once

#include <string>

#include <core/plan/deck/deck.hpp>
#include <core/plan/plan.hpp>
#include <miniapp/measure/result.hpp>

namespace shardmark {

/// A few lines about the run, for before its first step. `checkpoint` says where the run resumes,
/// and may be empty; `run_class` is describe_start() of its class.
std::string heading(const Deck& deck, const Program& program, const std::optional<Fit>& fit,
                    const std::string& checkpoint, const std::string& run_class);

/// All tables, what to do next, then FOM, CLASS and RESULT, each on a line of its own; nothing may
/// follow. `folder` is the output folder.
std::string report_text(const Deck& deck, const Program& program, const Result& result,
                        const std::string& folder);

/// Returns one line without its end: the page to open in the folder `out`, and after it the next
/// step for this result: what explains a failed check, how to compare, what an official figure
/// needs.
std::string next_step(const Deck& deck, const Result& result, const std::string& out);

}  // namespace shardmark
