// SPDX-License-Identifier: Apache-2.0
// The colours of pages and pictures: what each class of the style looks like.
#pragma once

#include <string>
#include <string_view>

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

}  // namespace shardmark::html
