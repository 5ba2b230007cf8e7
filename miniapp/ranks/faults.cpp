// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <cstdlib>

#include <fmt/core.h>

#include <core/error.hpp>
#include <core/text.hpp>
#include <miniapp/ranks/faults.hpp>

namespace shardmark {
namespace {

[[noreturn]] void refuse(std::string_view value, const std::string& why) {
  throw DeckError(fmt::format("environment: SHARDMARK_FAULT = {}: {}", value, why));
}

Fault named(std::string_view name, std::string_view value) {
  std::string all;
  for (const Fault fault : all_values<Fault>) {
    if (fault == Fault::none) continue;
    if (to_string(fault) == name) return fault;
    add_item(all, to_string(fault));
  }
  refuse(value, "must be one of " + all);
}

// If one rank alone made another collective than the others, all would wait for ever.
bool takes_all_ranks(Fault fault) {
  return fault == Fault::repeat_micro || fault == Fault::fewer_elems;
}

}  // namespace

std::string to_string(const InjectedFault& fault) {
  const std::string name(to_string(fault.kind));
  return fault.rank ? fmt::format("{}:{}", name, *fault.rank) : name;
}

InjectedFault fault_from_environment(int world) {
  const char* text = std::getenv("SHARDMARK_FAULT");
  if (text == nullptr || *text == '\0') return {};
  const std::string_view value(text), name = value.substr(0, value.find(':'));
  InjectedFault fault{named(name, value)};
  if (name == value) return fault;
  const std::string_view number = value.substr(name.size() + 1);
  int rank = -1;
  const auto end = std::from_chars(number.data(), number.data() + number.size(), rank);
  if (end.ec != std::errc{} || end.ptr != number.data() + number.size() || rank < 0 ||
      rank >= world)
    refuse(value, fmt::format("the rank must be from 0 to {}", world - 1));
  if (takes_all_ranks(fault.kind))
    refuse(value, fmt::format("all ranks make this fault together: give {} without a rank", name));
  fault.rank = rank;
  return fault;
}

}  // namespace shardmark
