// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/core.h>
#include <sys/utsname.h>

#include <core/text.hpp>
#include <miniapp/provenance/machine.hpp>

namespace shardmark {
namespace {

namespace fs = std::filesystem;

std::string field_of(const std::string& line) {
  const auto colon = line.find(':');
  if (colon == std::string::npos) return {};
  const auto first = line.find_first_not_of(" \t", colon + 1);
  return first == std::string::npos ? std::string{} : line.substr(first);
}

struct ArmImplementer {
  int number;
  std::string_view name;
};
constexpr std::array<ArmImplementer, 11> arm_implementers{{{0x41, "Arm"},
                                                           {0x42, "Broadcom"},
                                                           {0x43, "Cavium"},
                                                           {0x46, "Fujitsu"},
                                                           {0x48, "HiSilicon"},
                                                           {0x4e, "NVIDIA"},
                                                           {0x50, "Applied Micro"},
                                                           {0x51, "Qualcomm"},
                                                           {0x61, "Apple"},
                                                           {0x6d, "Microsoft"},
                                                           {0xc0, "Ampere"}}};

// Parts of servers, by implementer. Grace, Graviton4 and Axion have Neoverse-V2, Graviton3
// Neoverse-V1, Graviton2 and Altra Neoverse-N1.
struct ArmPart {
  int implementer, part;
  std::string_view name;
};
constexpr std::array<ArmPart, 16> arm_parts{{{0x41, 0xd08, "Cortex-A72"},
                                             {0x41, 0xd0c, "Neoverse-N1"},
                                             {0x41, 0xd40, "Neoverse-V1"},
                                             {0x41, 0xd49, "Neoverse-N2"},
                                             {0x41, 0xd4f, "Neoverse-V2"},
                                             {0x41, 0xd83, "Neoverse-V3AE"},
                                             {0x41, 0xd84, "Neoverse-V3"},
                                             {0x41, 0xd8e, "Neoverse-N3"},
                                             {0x42, 0x516, "ThunderX2"},
                                             {0x43, 0x0af, "ThunderX2"},
                                             {0x46, 0x001, "A64FX"},
                                             {0x48, 0xd01, "Kunpeng 920 (TaiShan v110)"},
                                             {0x48, 0xd02, "TaiShan v120"},
                                             {0x4e, 0x004, "Carmel"},
                                             {0xc0, 0xac3, "AmpereOne"},
                                             {0xc0, 0xac4, "AmpereOne A"}}};

// "0x41" and "0xd4f" of the first core.
std::string arm_name(const std::string& implementer, const std::string& part) {
  const int i = static_cast<int>(std::strtol(implementer.c_str(), nullptr, 16));
  const int p = static_cast<int>(std::strtol(part.c_str(), nullptr, 16));
  const auto of = std::ranges::find_if(
      arm_implementers, [&](const ArmImplementer& known) { return known.number == i; });
  const auto is = std::ranges::find_if(
      arm_parts, [&](const ArmPart& known) { return known.implementer == i && known.part == p; });
  const std::string maker =
      of == arm_implementers.end() ? "ARM of implementer " + implementer : std::string(of->name);
  return is == arm_parts.end() ? fmt::format("{} part {}", maker, part)
                               : fmt::format("{} {}", maker, is->name);
}

std::vector<int> cores_of_node(const fs::path& folder) {
  std::ifstream file(folder / "cpulist");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  return parse_numbers(text);
}

}  // namespace

std::string processor_model(const MachineFiles& files) {
  std::ifstream file(files.cpuinfo);
  std::string implementer;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name") || line.starts_with("cpu\t")) return field_of(line);
    if (line.starts_with("CPU implementer")) implementer = field_of(line);
    if (line.starts_with("CPU part") && !implementer.empty())
      return arm_name(implementer, field_of(line));
  }
  utsname system{};
  return uname(&system) == 0 ? system.machine : "unknown";
}

std::string numa_nodes(std::string_view cores, const MachineFiles& files) {
  const std::vector<int> own = parse_numbers(cores);
  std::vector<int> nodes;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(files.nodes, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("node")) continue;
    const std::vector<int> number = parse_numbers(std::string_view(name).substr(4));
    if (number.size() != 1) continue;
    const std::vector<int> there = cores_of_node(entry.path());
    if (std::find_first_of(there.begin(), there.end(), own.begin(), own.end()) != there.end())
      nodes.push_back(number[0]);
  }
  std::ranges::sort(nodes);
  return format_numbers(nodes);
}

std::string operating_system() {
  utsname system{};
  if (uname(&system) != 0) return "unknown";
  return fmt::format("{} {} {}", system.sysname, system.release, system.machine);
}

}  // namespace shardmark
