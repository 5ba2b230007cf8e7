// SPDX-License-Identifier: Apache-2.0
#include <io/chakra/trace_writer.hpp>

namespace shardmark::chakra {
namespace {

constexpr unsigned wire_varint = 0, wire_length = 2;
constexpr std::string_view schema_version = "0.0.4";

// GlobalMetadata
constexpr int metadata_version = 1, metadata_attr = 2;
// Node
constexpr int node_id = 1, node_name = 2, node_type = 3, node_data_deps = 5, node_start = 6,
              node_duration = 7, node_attr = 10;
// AttributeProto
constexpr int attr_name = 1, attr_int64 = 9, attr_uint64 = 13, attr_bool = 27, attr_string = 29;

}  // namespace

void Message::raw(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>((value & 0x7f) | 0x80);
  bytes_ += static_cast<char>(value);
}

void Message::key(int field, unsigned wire_type) {
  raw(static_cast<std::uint64_t>(field) << 3 | wire_type);
}

Message& Message::varint(int field, std::uint64_t value) {
  key(field, wire_varint);
  raw(value);
  return *this;
}

Message& Message::text(int field, std::string_view value) {
  key(field, wire_length);
  raw(value.size());
  bytes_ += value;
  return *this;
}

Message& Message::packed(int field, const std::vector<std::uint64_t>& values) {
  if (values.empty()) return *this;
  Message inner;
  for (const std::uint64_t value : values) inner.raw(value);
  return text(field, inner.bytes_);
}

Message& Attributes::add(std::string_view name) {
  return all_.emplace_back().text(attr_name, name);
}

Attributes& Attributes::boolean(std::string_view name, bool value) {
  add(name).varint(attr_bool, value ? 1 : 0);
  return *this;
}

Attributes& Attributes::int64(std::string_view name, std::int64_t value) {
  add(name).varint(attr_int64, static_cast<std::uint64_t>(value));
  return *this;
}

Attributes& Attributes::uint64(std::string_view name, std::uint64_t value) {
  add(name).varint(attr_uint64, value);
  return *this;
}

Attributes& Attributes::string(std::string_view name, std::string_view value) {
  add(name).text(attr_string, value);
  return *this;
}

TraceWriter::TraceWriter(const Attributes& about) {
  Message metadata;
  metadata.text(metadata_version, schema_version);
  for (const Message& attribute : about.all()) metadata.text(metadata_attr, attribute.bytes());
  put(metadata);
}

void TraceWriter::add(const Node& node) {
  Message message;
  message.varint(node_id, node.id)
      .text(node_name, node.name)
      .varint(node_type, static_cast<std::uint64_t>(node.type))
      .packed(node_data_deps, node.depends_on);
  if (node.start_us > 0) message.varint(node_start, node.start_us);
  if (node.duration_us > 0) message.varint(node_duration, node.duration_us);
  for (const Message& attribute : node.attributes.all()) message.text(node_attr, attribute.bytes());
  put(message);
}

void TraceWriter::put(const Message& message) {
  Message length;
  length.raw(message.bytes().size());
  bytes_ += length.bytes();
  bytes_ += message.bytes();
}

}  // namespace shardmark::chakra
