// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdlib>
#include <string>

#include <core/error.hpp>
#include <miniapp/ranks/faults.hpp>

namespace shardmark {
namespace {
constexpr std::array<std::string_view, 9> names{"none",      "leak",       "extra_call",
                                                "skip_wait", "flip_bit",   "stale_shard",
                                                "nan",       "extra_copy", "illegal_plan"};
}

std::string_view to_string(Fault fault) {
  return names[static_cast<std::size_t>(fault)];
}

Fault fault_from_environment() {
  const char* value = std::getenv("SHARDMARK_FAULT");
  if (value == nullptr || *value == '\0') return Fault::none;
  std::string all;
  for (std::size_t i = 1; i < names.size(); ++i) {
    if (names[i] == value) return static_cast<Fault>(i);
    all += (i > 1 ? ", " : "") + std::string(names[i]);
  }
  throw DeckError("environment: SHARDMARK_FAULT = " + std::string(value) + ": must be one of " +
                  all);
}

}  // namespace shardmark
