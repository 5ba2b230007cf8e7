// SPDX-License-Identifier: Apache-2.0
// Who is to carry out the advice: `advise --for`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <core/plan/deck/choices.hpp>

namespace shardmark {

enum class Framework : std::uint8_t { deepspeed, torch, shardmark };
template<>
inline constexpr std::size_t enum_size<Framework> = 3;

/// What distinguishes the frameworks for code that is common to them.
struct FrameworkTraits {
  std::string_view name;   // of `--for` and of the JSON key "for"
  std::string_view title;  // in sentences
};
inline constexpr auto framework_traits =
    enum_table<Framework>(FrameworkTraits{.name = "deepspeed", .title = "DeepSpeed"},
                          FrameworkTraits{.name = "torch", .title = "PyTorch"},
                          FrameworkTraits{.name = "shardmark", .title = "ShardMark"});
/// The row of the table above.
constexpr const FrameworkTraits& traits(Framework f) {
  return framework_traits[f];
}

/// The schedules that the framework carries out. ShardMark carries out all of them.
std::vector<Schedule> schedules_of(Framework framework);

/// The framework of that name; if the name is empty, the one for which the deck is written: PyTorch
/// if `run.schedule` is torch or the deck has a section `torch`, else DeepSpeed if the section
/// `deepspeed` is not empty, else ShardMark. Throws DeckError for a deck that is not JSON.
Framework framework_of(std::string_view name, const std::string& deck,
                       const std::vector<std::string>& sets);

/// `--set` arguments with which the deck as it is runs under the framework: none for ShardMark.
std::vector<std::string> sets_for(Framework framework);

}  // namespace shardmark
