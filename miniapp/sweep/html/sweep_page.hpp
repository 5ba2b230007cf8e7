// SPDX-License-Identifier: Apache-2.0
// sweep.html: a sweep's table and its plots as one page that needs nothing else.
#pragma once

#include <string>

#include <miniapp/sweep/table.hpp>

namespace shardmark {

/// What comes from decks and arguments is escaped. The page is well-formed XML too.
std::string sweep_html(const Sweep& sweep);

}  // namespace shardmark
