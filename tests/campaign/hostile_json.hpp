// SPDX-License-Identifier: Apache-2.0
// Structural changes of JSON that is read from files of others: values are exchanged, removed,
// repeated and replaced by hostile ones.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include <tests/campaign/campaign.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test {

inline const std::vector<Json>& hostile_values() {
  static const std::vector<Json> all = {nullptr,
                                        true,
                                        -1,
                                        0,
                                        std::int64_t{1} << 40,
                                        std::numeric_limits<std::int64_t>::max(),
                                        std::numeric_limits<std::uint64_t>::max(),
                                        1e300,
                                        0.5,
                                        "",
                                        "../../x",
                                        "x\nRESULT=VALID",
                                        Json::array(),
                                        Json::object(),
                                        Json::array({0, 1})};
  return all;
}

/// Changes `whole`, an object that is not empty, in one place, and returns what was done.
inline std::string change_structure(Campaign& campaign, Json& whole) {
  const Json flat = whole.flatten();
  auto it = flat.begin();
  std::advance(it, campaign.random(static_cast<std::int64_t>(flat.size())));
  Json::json_pointer at(it.key());
  const std::int64_t up = campaign.random(4);  // often the value itself, else what holds it
  for (std::int64_t u = 2; u < up && !at.parent_pointer().empty(); ++u) at = at.parent_pointer();
  Json& value = whole[at];
  const std::int64_t kind = campaign.random(6);
  if (kind == 0) {
    value = campaign.one_of(hostile_values());
  } else if (kind == 1 && value.is_number()) {
    value = value.get<double>() * 2 + 1;
  } else if (kind == 2 && value.is_number_integer()) {
    value = value.get<std::int64_t>() + (campaign.random(2) == 0 ? 1 : -1);
  } else if (kind == 3 && !at.empty()) {
    Json& parent = whole[at.parent_pointer()];
    if (parent.is_object()) parent.erase(at.back());
    if (parent.is_array()) parent.erase(parent.begin() + std::stol(at.back()));
  } else if (kind == 4 && !at.empty() && whole[at.parent_pointer()].is_array()) {
    whole[at.parent_pointer()].push_back(value);
  } else {
    auto from = flat.begin();
    std::advance(from, campaign.random(static_cast<std::int64_t>(flat.size())));
    value = from.value();
  }
  return at.to_string() + " change " + std::to_string(kind) + "; ";
}

}  // namespace shardmark::test
