// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace shardmark {

/// The help of all commands as one man page in section 1, in roff with the macros of man(7).
std::string man_page(const std::string& version);

}  // namespace shardmark
