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
#include <string>
#include <vector>

namespace shardmark {

/// What a counter measures; `node` includes all other parts.
enum class EnergyPart : std::uint8_t { processor, memory, gpu, node };
/// "processor", "memory", "gpu", "node".
const char* to_string(EnergyPart part);

/// What a counter measured since the last begin().
struct CounterEnergy {
  std::string name, source;  // "package-0", "powercap"
  EnergyPart part = EnergyPart::processor;
  double joules = 0;
};

/// One source of readings. Its count only grows, apart from a wrap that it declares.
class EnergyCounter {
 public:
  EnergyCounter(std::string name, std::string source, EnergyPart part)
      : energy_{std::move(name), std::move(source), part, 0} {}
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
  const CounterEnergy& energy() const { return energy_; }

 private:
  CounterEnergy energy_;
  double last_ = 0;
};

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
  std::int64_t sampled_ns_ = 0;
};

}  // namespace shardmark
