// SPDX-License-Identifier: Apache-2.0
// The style of the page, for light, dark and narrow screens and for paper.
#pragma once

namespace shardmark::html {

/// The text of the page's style element.
extern const char* const style;

}  // namespace shardmark::html
