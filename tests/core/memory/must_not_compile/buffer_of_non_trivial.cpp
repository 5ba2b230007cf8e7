// SPDX-License-Identifier: Apache-2.0
// Elements of a buffer are raw bytes that collectives move: a type with a destructor has no place
// there.
#include <string>

#include <core/memory/buffer.hpp>

std::string* first(const shardmark::Buffer& buffer) {
  return buffer.data<std::string>();
}
