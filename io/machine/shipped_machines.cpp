// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>

#include <io/machine/machine_file.hpp>
#include <io/machine/shipped_machines.hpp>

namespace shardmark {
namespace {

const ShippedKind machines_kind{"machines", "machine file", "`shardmark machines` lists them"};

constexpr std::string_view eager = "-eager", unfused = "-unfused";

// The name without the software that its end stands for.
std::string hardware_of_name(const std::string& text) {
  for (const std::string_view end : {eager, unfused})
    if (text.ends_with(end)) return text.substr(0, text.size() - end.size());
  return text;
}

}  // namespace

Software software_of_name(const std::string& text) {
  Software software;
  if (hardware_of_name(text) == text) return software;
  std::error_code none;
  if (std::filesystem::exists(text, none)) return software;  // a file says it itself
  software.eager = true;
  software.attention =
      text.ends_with(unfused) ? AttentionKernel::unfused : AttentionKernel::portable_fused;
  return software;
}

std::vector<ShippedMachine> shipped_machines() {
  std::vector<ShippedMachine> machines;
  for (const std::string& path : shipped_files(machines_kind))
    machines.push_back(
        {std::filesystem::path(path).stem().string(), path, read_machine_file(path)});
  std::ranges::sort(machines, {}, &ShippedMachine::name);
  return machines;
}

FoundFile find_machine(const std::string& text) {
  std::error_code none;
  if (std::filesystem::exists(text, none)) return {text};
  return find_shipped(hardware_of_name(text), machines_kind);
}

}  // namespace shardmark
