// SPDX-License-Identifier: Apache-2.0
// The phases of the steps among which energy is divided.
#pragma once

#include <cstdint>

#include <core/enum_array.hpp>

namespace shardmark {

/// The parts of a step, and the writing of checkpoints between steps.
enum class EnergyPhase : std::uint8_t { forward, backward, optimizer, checkpoint };
template<>
inline constexpr std::size_t enum_size<EnergyPhase> = 4;
inline constexpr auto energy_phase_names =
    enum_names<EnergyPhase>("forward", "backward", "optimizer", "checkpoint");

/// How often a phase occurred, and how long that took in all.
struct PhaseSpan {
  std::int64_t count = 0;
  double seconds = 0;
  double mean_s() const { return count > 0 ? seconds / static_cast<double>(count) : 0; }
};
using PhaseSpans = EnumArray<EnergyPhase, PhaseSpan>;

/// The largest part of itself by which the joules of a phase may be wrong to be reported.
inline constexpr double most_phase_error = 0.1;

/// The largest part of itself by which the joules of all timed steps may be wrong to give a figure
/// of merit.
inline constexpr double most_energy_error = 0.1;

}  // namespace shardmark
