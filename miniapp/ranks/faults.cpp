// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <charconv>
#include <cstdlib>

#include <fmt/core.h>

#include <core/error.hpp>
#include <miniapp/ranks/faults.hpp>

namespace shardmark {
namespace {

constexpr std::array<std::string_view, 13> names{
    "none",         "leak",        "extra_call", "skip_wait",    "flip_bit",
    "stale_shard",  "nan",         "extra_copy", "illegal_plan", "repeat_micro",
    "wrong_update", "fewer_elems", "overrun"};

[[noreturn]] void refuse(std::string_view value, const std::string& why) {
  throw DeckError(fmt::format("environment: SHARDMARK_FAULT = {}: {}", value, why));
}

Fault named(std::string_view name, std::string_view value) {
  std::string all;
  for (std::size_t i = 1; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<Fault>(i);
    all += (i > 1 ? ", " : "") + std::string(names[i]);
  }
  refuse(value, "must be one of " + all);
}

// If one rank alone made another collective than the others, all would wait for ever.
bool takes_all_ranks(Fault fault) {
  return fault == Fault::repeat_micro || fault == Fault::fewer_elems;
}

}  // namespace

std::string_view to_string(Fault fault) {
  return names[static_cast<std::size_t>(fault)];
}

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
