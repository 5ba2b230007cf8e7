// SPDX-License-Identifier: Apache-2.0
// A chart as a file of its own, for documents and slides.
#pragma once

#include <string>
#include <string_view>

#include <miniapp/charts/chart.hpp>

namespace shardmark::html {

/// Returns an SVG file with the title, a sentence below it, the legend and the chart. Its colours
/// are written out, since not every viewer knows the variables of a page's style. Returns "" if
/// there is nothing to draw. Both texts may be anything.
std::string picture(std::string_view title, std::string_view note, const Chart& chart);

}  // namespace shardmark::html
