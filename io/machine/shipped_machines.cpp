// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>

#include <io/machine/machine_file.hpp>
#include <io/machine/shipped_machines.hpp>

namespace shardmark {
namespace {

const ShippedKind machines_kind{"machines", "machine file", "`shardmark machines` lists them"};

}  // namespace

std::vector<ShippedMachine> shipped_machines() {
  std::vector<ShippedMachine> machines;
  for (const std::string& path : shipped_files(machines_kind))
    machines.push_back(
        {std::filesystem::path(path).stem().string(), path, read_machine_file(path)});
  std::sort(machines.begin(), machines.end(),
            [](const ShippedMachine& a, const ShippedMachine& b) { return a.name < b.name; });
  return machines;
}

FoundFile find_machine(const std::string& text) {
  return find_shipped(text, machines_kind);
}

}  // namespace shardmark
