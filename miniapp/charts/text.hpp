// SPDX-License-Identifier: Apache-2.0
// Text and numbers as a page shows them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shardmark::html {

/// Makes any text of a deck or environment safe between tags and in quoted attributes: & < > " '
/// become entities, control characters become spaces, and bytes that are not UTF-8 become the
/// replacement character.
std::string escape(std::string_view text);

/// Escapes `text` too, and lets a browser wrap it behind separators, since paths and lists have no
/// blanks.
std::string breakable(std::string_view text);

/// "116 403 480", grouped by narrow no-break spaces.
std::string grouped(std::int64_t number);

/// "2.693500" with `decimals` digits after the point, "nan", "inf", "-inf".
std::string decimal(double number, int decimals);

}  // namespace shardmark::html
