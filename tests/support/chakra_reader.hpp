// SPDX-License-Identifier: Apache-2.0
// Reads Chakra execution traces by protobuf's wire format and the field numbers of the schema, and
// independently of the code that writes them.
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace shardmark::test {

struct ChakraNode {
  std::uint64_t id = 0, type = 0, start_us = 0, duration_us = 0;
  std::string name;
  std::vector<std::uint64_t> depends_on;
  std::map<std::string, std::int64_t> numbers;  // attributes by name
  std::map<std::string, std::string> texts;
  bool collective() const { return type == 7; }
};

struct ChakraTrace {
  std::string version;
  std::map<std::string, std::int64_t> numbers;
  std::map<std::string, std::string> texts;
  std::vector<ChakraNode> nodes;
};

/// Takes a message apart. Throws std::runtime_error if it is cut off.
class Wire {
 public:
  explicit Wire(std::string_view bytes) : bytes_(bytes) {}
  bool done() const { return bytes_.empty(); }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= std::uint64_t(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
      if (shift > 56) throw std::runtime_error("a varint is too long");
    }
  }
  std::string_view text() { return take(varint()); }
  /// Calls `found(field, number, text)` for each field; one of both is empty.
  template<class Found>
  void fields(const Found& found) {
    while (!done()) {
      const std::uint64_t key = varint();
      if ((key & 7) == 0)
        found(int(key >> 3), varint(), std::string_view());
      else if ((key & 7) == 2)
        found(int(key >> 3), std::uint64_t{0}, text());
      else
        throw std::runtime_error("another wire type than a trace has");
    }
  }

 private:
  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size()) throw std::runtime_error("a trace is cut off");
    const std::string_view part = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return part;
  }
  std::string_view bytes_;
};

template<class Numbers, class Texts>
void read_attribute(std::string_view bytes, Numbers& numbers, Texts& texts) {
  std::string name;
  Wire(bytes).fields([&](int field, std::uint64_t number, std::string_view text) {
    if (field == 1)
      name = text;
    else if (field == 29)
      texts[name] = text;
    else if (field == 9 || field == 13 || field == 27)
      numbers[name] = static_cast<std::int64_t>(number);
    else
      throw std::runtime_error("an attribute of another type");
  });
}

inline ChakraNode read_node(std::string_view bytes) {
  ChakraNode node;
  Wire(bytes).fields([&](int field, std::uint64_t number, std::string_view text) {
    switch (field) {
      case 1: node.id = number; break;
      case 2: node.name = text; break;
      case 3: node.type = number; break;
      case 5:
        for (Wire packed(text); !packed.done();) node.depends_on.push_back(packed.varint());
        break;
      case 6: node.start_us = number; break;
      case 7: node.duration_us = number; break;
      case 10: read_attribute(text, node.numbers, node.texts); break;
      default: throw std::runtime_error("a node with an unknown field");
    }
  });
  return node;
}

inline ChakraTrace read_chakra(std::string_view bytes) {
  ChakraTrace trace;
  Wire file(bytes);
  Wire(file.text()).fields([&](int field, std::uint64_t, std::string_view text) {
    if (field == 1)
      trace.version = text;
    else
      read_attribute(text, trace.numbers, trace.texts);
  });
  while (!file.done()) trace.nodes.push_back(read_node(file.text()));
  return trace;
}

}  // namespace shardmark::test
