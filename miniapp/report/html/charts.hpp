// SPDX-License-Identifier: Apache-2.0
// The drawings of a report as data. A drawing is empty if the run has nothing to show.
#pragma once

#include <core/plan/deck/deck.hpp>
#include <core/plan/plan.hpp>
#include <miniapp/charts/chart.hpp>
#include <miniapp/charts/time_line.hpp>
#include <miniapp/measure/result.hpp>

namespace shardmark::html {

/// The loss of the global batch over the steps. Steps without a finite loss leave a gap; steps
/// whose update was skipped are marked.
Chart loss_chart(const Deck& deck, const Result& result);

/// Live bytes of a tier after each event of the traced step: predicted by category, and measured in
/// total, with the tier's budget.
Chart memory_chart(const Program& program, const Result& result, Tier tier);

/// The traced step over time: kernels, copies, communication and waiting.
TimeLine lanes_chart(const Program& program, const StepTrace& trace);

}  // namespace shardmark::html
