// SPDX-License-Identifier: Apache-2.0
// A folder with the kernel's files of energy counters, which a test writes.
#pragma once

#include <filesystem>
#include <string>

#include <miniapp/energy/energy_figure.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test {

class MadeUpCounters {
 public:
  inline static const std::string no_nvml = "libshardmark-has-no-such-library.so";

  void put(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(place.path(file)).parent_path());
    place.write(file, text + "\n");
  }
  /// A zone of powercap that starts again at 10 J.
  void put_zone(const std::string& zone, const std::string& name,
                const std::string& microjoules) const {
    put("sys/class/powercap/" + zone + "/name", name);
    put("sys/class/powercap/" + zone + "/max_energy_range_uj", "10000000");
    put("sys/class/powercap/" + zone + "/energy_uj", microjoules);
  }
  EnergyMeters meters(const std::string& nvml = no_nvml) const {
    return EnergyMeters(place.path(""), nvml);
  }
  static bool says(const EnergyMeters& m, const std::string& text) {
    for (const std::string& sentence : m.missing())
      if (sentence.find(text) != std::string::npos) return true;
    return false;
  }
  static NodeEnergy node_of(const EnergyMeters& m) { return {"a", 2, m.energy(), m.missing()}; }

  Workplace place;
};

}  // namespace shardmark::test
