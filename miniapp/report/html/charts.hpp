// SPDX-License-Identifier: Apache-2.0
// The three drawings of a report, `width` units wide with their legends. A drawing is empty if the
// run has nothing to show.
#pragma once

#include <string>

#include <core/plan/deck/deck.hpp>
#include <core/plan/plan.hpp>
#include <miniapp/measure/result.hpp>
#include <miniapp/report/html/svg.hpp>

namespace shardmark::html {

/// The loss of the global batch over the steps. Steps without a finite loss leave a gap; steps
/// whose update was skipped are marked.
std::string loss_chart(const Deck& deck, const Result& result, double width = chart_width);

/// Live bytes of both tiers after each event of the traced step: predicted by category, and
/// measured in total.
std::string memory_chart(const Program& program, const Result& result, double width = chart_width);

/// The traced step over time: kernels, copies, communication and waiting.
std::string lanes_chart(const Program& program, const Result& result, double width = chart_width);

}  // namespace shardmark::html
