// SPDX-License-Identifier: Apache-2.0
// A whole page, for light, dark and narrow screens and for paper.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shardmark::html {

/// A page that needs no other file, no network and no script. `title` is any text, `body` is
/// markup. The page is well-formed XML if the body is.
std::string document(std::string_view title, std::string_view body);

/// Returns a list of `sentences`, which may be any text, or "" if there are none.
std::string list(const std::vector<std::string>& sentences);

}  // namespace shardmark::html
