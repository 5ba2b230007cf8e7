// SPDX-License-Identifier: Apache-2.0
// The energy counters of a node. One rank of each node reads them, since they count for all.
//
//   powercap     /sys/class/powercap/intel-rapl:N and its zone `dram` (Intel and AMD): µJ, wraps
//   hwmon        /sys/class/hwmon/*/energy*_input: µJ; only where powercap cannot be read
//   pm_counters  /sys/cray/pm_counters/energy, …: J, of the whole node and of its parts
//   nvml         nvmlDeviceGetTotalEnergyConsumption of every GPU that the driver shows: mJ
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <miniapp/energy/counter.hpp>

namespace shardmark {

/// All counters of this node.
class EnergyMeters {
 public:
  /// Finds the counters below `root` ("" is the system's own) and in the library `nvml`.
  explicit EnergyMeters(const std::string& root = "",
                        const std::string& nvml = "libnvidia-ml.so.1");

  /// Starts an interval. A counter that fails from here on is dropped, and missing() says why.
  void begin();
  /// Takes a reading, at most once per second unless `now`, so that no counter wraps twice.
  void sample(bool now = false);
  /// Chooses the counters that resolve a phase as long as one of `spans`, for change_phase().
  /// Returns whether there are any.
  bool follow_phases(const PhaseSpans& spans);
  /// Leaves these counters alone until the next follow_phases().
  void follow_no_phases() { following_.clear(); }
  /// Reads the chosen counters, or `all`, at the end of the phase `ended`, if one ends.
  void change_phase(std::optional<EnergyPhase> ended, bool all);
  /// Reads all counters. What they count until resume() is not in their joules.
  void pause();
  void resume();
  /// What each counter has measured from begin() to the last reading.
  std::vector<CounterEnergy> energy() const;
  /// What is not measured and why, in sentences without a full stop.
  const std::vector<std::string>& missing() const { return missing_; }

 private:
  void find_powercap(const std::string& root);
  void find_hwmon(const std::string& root);
  void find_pm_counters(const std::string& root);
  void find_gpus(const std::string& nvml);
  // Keeps the counter if it can be read.
  bool keep(std::unique_ptr<EnergyCounter> counter);
  template<class Call>
  void each(Call call);

  std::vector<std::unique_ptr<EnergyCounter>> counters_;
  std::vector<std::string> missing_;
  std::set<const EnergyCounter*> following_;  // read at the ends of phases
  std::int64_t sampled_ns_ = 0;
};

}  // namespace shardmark
