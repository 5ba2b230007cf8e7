// SPDX-License-Identifier: Apache-2.0
// A number is no Category: the code has to name what the memory is for.
#include <core/memory/label.hpp>

std::string label() {
  return shardmark::memory_label(shardmark::Tier::device, 3, "block0");
}
