// SPDX-License-Identifier: Apache-2.0
// Divides the energy of a node among the phases of the rank that reads its counters. The warm-up
// steps show how long the phases are. In the timed steps, counters that are updated often enough
// for that are read wherever a phase ends, and no others.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <core/clock.hpp>
#include <miniapp/energy/meters.hpp>

namespace shardmark {

/// How the energy of one node was divided.
struct PhaseReadings {
  PhaseSpans spans{};     // of the timed steps
  std::string refused;    // why no counter was read at the ends of phases; empty: some were
  std::int64_t ends = 0;  // of phases in timed steps at which counters were read
  double seconds = 0;     // that this took
};

/// Its owner reports each beginning of a phase to it.
class PhaseMeter {
 public:
  using Clock = std::function<std::int64_t()>;
  /// `meters` must outlive it. `refused` is a reason not to read counters at the ends of phases, if
  /// there is one.
  explicit PhaseMeter(EnergyMeters& meters, std::string refused = "", Clock clock = monotonic_ns)
      : meters_(meters), clock_(std::move(clock)) {
    readings_.refused = std::move(refused);
  }

  /// A step begins, outside of all phases. The last one before begin() shows how long phases are.
  void step();
  /// The timed steps begin. Call it before EnergyMeters::begin().
  void begin();
  /// The phase `next` begins and the one before it ends; empty: no phase begins.
  void enter(std::optional<EnergyPhase> next);

  const PhaseReadings& readings() const { return readings_; }

 private:
  void read(std::optional<EnergyPhase> next);
  double cost_s();

  EnergyMeters& meters_;
  Clock clock_;
  PhaseReadings readings_;
  bool timed_ = false, follows_ = false;
  std::optional<EnergyPhase> now_;
  std::int64_t since_ns_ = 0;  // when the phase `now_` began
};

}  // namespace shardmark
