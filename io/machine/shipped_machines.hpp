// SPDX-License-Identifier: Apache-2.0
// The machine files that come with the program, found by name.
#pragma once

#include <string>
#include <vector>

#include <core/plan/price/machine.hpp>
#include <io/keys/shipped.hpp>

namespace shardmark {

/// A machine file that comes with the program.
struct ShippedMachine {
  std::string name;  // "dgx-h100"
  std::string path;  // its file
  Machine machine;
};

/// Returns all shipped machine files, sorted by name; empty without their folder. Throws DeckError
/// for a file that is not sound, and IoError for one that cannot be read.
std::vector<ShippedMachine> shipped_machines();

/// Returns the machine file that is given as a path or by the name of a shipped one. The name may
/// end in software: `dgx-h100-eager`. Throws DeckError for other names.
FoundFile find_machine(const std::string& text);

/// The software that the end of a shipped machine's name stands for: `-eager`, an interpreter that
/// launches each operation by itself, with attention that is fused but not written for the device;
/// `-unfused`, the same without fused attention; otherwise fused kernels.
Software software_of_name(const std::string& text);

}  // namespace shardmark
