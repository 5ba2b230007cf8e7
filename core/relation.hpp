// SPDX-License-Identifier: Apache-2.0
// How one figure relates to another, in words that stay readable when they are far apart.
#pragma once

#include <string>

namespace shardmark {

/// "+12.3 %" or "-45.0 %"; beyond a factor of ten "17 214 times" or "1/12 of it". Empty if there is
/// no ratio, because one of the two is negative or no number or the reference is 0.
std::string relation(double value, double reference);

}  // namespace shardmark
