// SPDX-License-Identifier: Apache-2.0
// A number is not a Category: the code has to name the purpose of the memory.
#include <core/memory/label.hpp>

std::string label() {
  return shardmark::memory_label(shardmark::Tier::device, 3, "block0");
}
