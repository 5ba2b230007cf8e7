// SPDX-License-Identifier: Apache-2.0
// The colours of pages and pictures: what each class of the style looks like.
// A chart as a file of its own, for documents and slides.
#pragma once

#include <string>
#include <string_view>

#include <miniapp/charts/chart.hpp>

namespace shardmark::html {

/// Returns the colours as variables of CSS, "--blue: #2b6cb0; …", for light or dark screens.
std::string colour_variables(bool dark);
/// Returns one rule per class of things that are drawn, ".forward { --c: var(--blue) }".
std::string class_rules();

/// Returns the rules for the classes that occur in `shapes`, with the light colours themselves:
/// viewers of single pictures know no variables.
std::string plain_class_rules(std::string_view shapes);
/// Returns a light colour by its name: "ink", "soft", "line", "page". Throws std::out_of_range.
std::string_view light_colour(std::string_view name);

/// Returns an SVG file with the title, a sentence below it, the legend and the chart. Its colours
/// are written out, since not every viewer knows the variables of a page's style. Returns "" if
/// there is nothing to draw. Both texts may be anything.
std::string picture(std::string_view title, std::string_view note, const Chart& chart);

}  // namespace shardmark::html
