// SPDX-License-Identifier: Apache-2.0
// How the page looks: on light and dark screens, narrow ones, and paper.
#pragma once

namespace shardmark::html {

/// The content of the page's <style>.
extern const char* const style;

}  // namespace shardmark::html
