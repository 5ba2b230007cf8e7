// SPDX-License-Identifier: Apache-2.0
// What a deck chooses between where each choice has an implementation of its own: the schedule, the
// back-end and the model family; optimizers.hpp has the optimizers. A table per enum says what
// differs, so that code elsewhere asks for a property and not for a value. Where each value needs
// code of its own, that code is a `switch` without a default, which does not compile when a value
// is missing.
#pragma once

#include <cstdint>
#include <string_view>

#include <core/enum_array.hpp>

namespace shardmark {

/// `run.schedule`: which collectives, copies and computations a step consists of.
enum class Schedule : std::uint8_t { deepspeed, paper, torch };
template<>
inline constexpr std::size_t enum_size<Schedule> = 3;

/// What distinguishes the schedules for code that is common to them.
struct ScheduleTraits {
  std::string_view name;
  bool follows_deepspeed;  // DeepSpeed's knobs, its offload and its types for sums have an effect
  bool takes_shard_size;   // run.shard_size cuts states over fewer ranks than the world
  bool follows_torch = false;  // the section `torch` has an effect
};
inline constexpr auto schedule_traits = enum_table<Schedule>(
    ScheduleTraits{.name = "deepspeed", .follows_deepspeed = true, .takes_shard_size = false},
    ScheduleTraits{.name = "paper", .follows_deepspeed = false, .takes_shard_size = true},
    ScheduleTraits{.name = "torch",
                   .follows_deepspeed = false,
                   .takes_shard_size = false,
                   .follows_torch = true});
/// The row of the table above.
constexpr const ScheduleTraits& traits(Schedule s) {
  return schedule_traits[s];
}

/// `comm.backend`: which library carries out the collectives. `automatic` becomes one of the others
/// once the ranks are known.
enum class Backend : std::uint8_t { automatic, self, mpi, shm, nccl, node };
template<>
inline constexpr std::size_t enum_size<Backend> = 6;

/// What distinguishes the back-ends for code that is common to them.
struct BackendTraits {
  std::string_view name;
  bool one_rank = false;     // works for a single rank only
  bool one_node = false;     // all ranks must share one node
  bool needs_nccl = false;   // the build must have NCCL
  bool ordered_sums = true;  // carries out run.reductions "ordered"
};
inline constexpr auto backend_traits = enum_table<Backend>(
    BackendTraits{.name = "auto"}, BackendTraits{.name = "self", .one_rank = true},
    BackendTraits{.name = "mpi"}, BackendTraits{.name = "shm", .one_node = true},
    BackendTraits{.name = "nccl", .needs_nccl = true, .ordered_sums = false},
    BackendTraits{.name = "node"});
/// The row of the table above.
constexpr const BackendTraits& traits(Backend b) {
  return backend_traits[b];
}

/// `model.family`: how a model is built from its sizes. A `list` is given module by module, and a
/// `decoder` by a description.
enum class Family : std::uint8_t { gpt2, llama, list, decoder };
template<>
inline constexpr std::size_t enum_size<Family> = 4;

/// What distinguishes the model families for code that is common to them.
struct FamilyTraits {
  std::string_view name;
  bool has_arithmetic;  // core/nn computes it; otherwise it has sizes only and trains nothing
};
inline constexpr auto family_traits =
    enum_table<Family>(FamilyTraits{.name = "gpt2", .has_arithmetic = true},
                       FamilyTraits{.name = "llama", .has_arithmetic = true},
                       FamilyTraits{.name = "list", .has_arithmetic = false},
                       FamilyTraits{.name = "decoder", .has_arithmetic = true});
/// The row of the table above.
constexpr const FamilyTraits& traits(Family f) {
  return family_traits[f];
}

constexpr std::string_view to_string(Schedule s) {
  return traits(s).name;
}
constexpr std::string_view to_string(Backend b) {
  return traits(b).name;
}
constexpr std::string_view to_string(Family f) {
  return traits(f).name;
}

}  // namespace shardmark
