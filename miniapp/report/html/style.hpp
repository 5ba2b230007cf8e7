// SPDX-License-Identifier: Apache-2.0
// How the page looks: on light and dark screens, narrow ones, and paper.
#pragma once

namespace shardmark::html {

/// The text of the page's style element.
extern const char* const style;

}  // namespace shardmark::html
