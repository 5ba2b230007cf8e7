// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/core.h>
#include <sys/utsname.h>

#include <miniapp/provenance/machine.hpp>
#include <miniapp/provenance/number_list.hpp>

namespace shardmark {
namespace {

namespace fs = std::filesystem;

std::string field_of(const std::string& line) {
  const auto colon = line.find(':');
  if (colon == std::string::npos) return {};
  const auto first = line.find_first_not_of(" \t", colon + 1);
  return first == std::string::npos ? std::string{} : line.substr(first);
}

std::vector<int> cores_of_node(const fs::path& folder) {
  std::ifstream file(folder / "cpulist");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  return parse_numbers(text);
}

}  // namespace

std::string processor_model(const MachineFiles& files) {
  std::ifstream file(files.cpuinfo);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name") || line.starts_with("cpu\t")) return field_of(line);
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
  std::sort(nodes.begin(), nodes.end());
  return format_numbers(nodes);
}

std::string operating_system() {
  utsname system{};
  if (uname(&system) != 0) return "unknown";
  return fmt::format("{} {} {}", system.sysname, system.release, system.machine);
}

}  // namespace shardmark
