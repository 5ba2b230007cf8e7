// SPDX-License-Identifier: Apache-2.0
// A number is no category: what memory is for is always spelled out.
#include <core/memory/label.hpp>

std::string label() {
  return shardmark::memory_label(shardmark::Tier::device, 3, "block0");
}
