// SPDX-License-Identifier: Apache-2.0
// Writes the Chakra execution trace of one rank: a GlobalMetadata message and then Node messages,
// each after its length as a varint. Field numbers are those of schema/protobuf/et_def.proto of
// mlcommons/chakra, version 0.0.4 of the schema (package ChakraProtoMsg).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardmark::chakra {

/// The NodeTypes that are written.
enum class NodeType : std::uint8_t { compute = 4, collective = 7 };

/// The values of CollectiveCommType that are written.
enum class Collective : std::uint8_t {
  all_reduce = 0,
  reduce = 1,
  all_gather = 2,
  broadcast = 5,
  all_to_all = 6,
  reduce_scatter = 7
};

/// A message of protobuf as far as traces need it. Each call appends a field.
class Message {
 public:
  Message& varint(int field, std::uint64_t value);
  Message& text(int field, std::string_view value);  // also nested messages
  Message& packed(int field, const std::vector<std::uint64_t>& values);
  const std::string& bytes() const { return bytes_; }

 private:
  friend class TraceWriter;
  void raw(std::uint64_t value);
  void key(int field, unsigned wire_type);
  std::string bytes_;
};

/// The attributes of a node or of a trace. Consumers look at names and types.
class Attributes {
 public:
  Attributes& boolean(std::string_view name, bool value);
  Attributes& int64(std::string_view name, std::int64_t value);
  Attributes& uint64(std::string_view name, std::uint64_t value);
  Attributes& string(std::string_view name, std::string_view value);
  const std::vector<Message>& all() const { return all_; }

 private:
  Message& add(std::string_view name);
  std::vector<Message> all_;
};

/// One node of a trace.
struct Node {
  std::uint64_t id = 0;  // from 1, since 0 is not written
  std::string name;
  NodeType type = NodeType::compute;
  std::vector<std::uint64_t> depends_on = {};   // ids of earlier nodes
  std::uint64_t start_us = 0, duration_us = 0;  // 0: unknown
  Attributes attributes = {};
};

/// Collects a trace in memory.
class TraceWriter {
 public:
  explicit TraceWriter(const Attributes& about);
  void add(const Node& node);
  std::string take() && { return std::move(bytes_); }

 private:
  void put(const Message& message);
  std::string bytes_;
};

}  // namespace shardmark::chakra
