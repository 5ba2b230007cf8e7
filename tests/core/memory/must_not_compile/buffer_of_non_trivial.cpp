// SPDX-License-Identifier: Apache-2.0
// Collectives move the elements of a buffer as raw bytes, so a type with a destructor is refused.
#include <string>

#include <core/memory/buffer.hpp>

std::string* first(const shardmark::Buffer& buffer) {
  return buffer.data<std::string>();
}
