// SPDX-License-Identifier: Apache-2.0
// sweep.html: the table of a sweep and its plots as one page that needs no other file.
#pragma once

#include <string>

#include <miniapp/tools/sweep/table.hpp>

namespace shardmark {

/// Text from decks and arguments is escaped. The page is well-formed XML.
std::string sweep_html(const Sweep& sweep);

}  // namespace shardmark
