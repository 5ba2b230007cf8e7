// SPDX-License-Identifier: Apache-2.0
// One energy counter: its readings added up, in all and by phase of the steps.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <core/enum_array.hpp>

namespace shardmark {

/// The parts of a step, and the writing of checkpoints between steps.
enum class EnergyPhase : std::uint8_t { forward, backward, optimizer, checkpoint };
template<>
inline constexpr auto value_names<EnergyPhase> = name_list("forward", "backward", "optimizer",
                                                           "checkpoint");

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

/// What a counter measures; `node` includes all other parts.
enum class EnergyPart : std::uint8_t { processor, memory, gpu, node };
template<>
inline constexpr auto value_names<EnergyPart> = name_list("processor", "memory", "gpu", "node");

/// How fine a counter is.
struct CounterSteps {
  double update_s = 0;  // between two updates of the count, at most
  double joules = 0;    // the least difference of two counts
};

/// What a counter measured since the last begin().
struct CounterEnergy {
  std::string name, source;  // "package-0", "powercap"
  EnergyPart part = EnergyPart::processor;
  double joules = 0;  // but those between pause() and resume()
  CounterSteps steps{};
  std::map<EnergyPhase, double> phases{};  // joules between the readings at the ends of a phase
  std::int64_t pieces = 1;                 // into which pauses divide what `joules` are of

  /// By how much of themselves the joules of `seconds` may be wrong, since a count is up to an
  /// update old at the ends of each span. 0 if `seconds` is 0.
  double error(double seconds) const;
  /// By how much of itself the figure of `phase` may be wrong: a count is up to an update old, in
  /// which the power was at most that of the phase with the most. Empty: there is no figure.
  std::optional<double> phase_error(EnergyPhase phase, const PhaseSpans& spans) const;
  /// The joules of `phase`; empty if there are none, or if they are too uncertain to be reported.
  std::optional<double> phase_joules(EnergyPhase phase, const PhaseSpans& spans) const;
};

/// One source of readings. Its count only grows, apart from a wrap that it declares.
class EnergyCounter {
 public:
  EnergyCounter(std::string name, std::string source, EnergyPart part, CounterSteps steps)
      : energy_{std::move(name), std::move(source), part, 0, steps, {}} {}
  virtual ~EnergyCounter() = default;
  /// Joules since some moment. Throws std::runtime_error with the reason if it cannot be read.
  virtual double read() = 0;
  /// Joules at which the count starts again at 0; 0: never.
  virtual double range() const { return 0; }

  /// Reads, and forgets what was measured before. Throws as read() does.
  void begin();
  /// Reads, and adds what was used since the last reading. A count that fell without a range, or
  /// below a range, throws std::runtime_error.
  void sample();
  /// The same between two phases: what was used since the last call belongs to `ended`.
  void change_phase(std::optional<EnergyPhase> ended);
  /// What is used until resume() belongs to a phase at most, and is not in the joules.
  void pause();
  void resume();
  const CounterEnergy& energy() const { return energy_; }

 private:
  CounterEnergy energy_;
  double last_ = 0, at_change_ = 0;  // at_change_: of all that was used
  double in_pauses_ = 0;
  bool paused_ = false;
};

}  // namespace shardmark
