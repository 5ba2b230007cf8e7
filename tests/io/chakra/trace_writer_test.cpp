// SPDX-License-Identifier: Apache-2.0
// Rule: what is written is protobuf: a reader by the wire format alone finds every field again, for
// numbers of any size, and a time that is unknown is no field.
#include <gtest/gtest.h>

#include <io/chakra/trace_writer.hpp>
#include <tests/support/chakra_reader.hpp>

namespace shardmark::test::trace_writer_test {
namespace {

using namespace chakra;

TEST(TraceWriter, IsReadAsItWasWritten) {
  TraceWriter writer(Attributes().string("deck", "d").int64("rank", 3));
  writer.add({.id = 1, .name = "forward", .start_us = 300, .duration_us = 1});
  writer.add(
      {.id = 2,
       .name = "grad.bucket",
       .type = NodeType::collective,
       .depends_on = {1, 128, 1 << 20},
       .attributes = Attributes().boolean("is_cpu_op", true).uint64("comm_size", 1ULL << 63)});
  const ChakraTrace trace = read_chakra(std::move(writer).take());
  EXPECT_EQ(trace.version, "0.0.4");
  EXPECT_EQ(trace.texts.at("deck"), "d");
  EXPECT_EQ(trace.numbers.at("rank"), 3);
  ASSERT_EQ(trace.nodes.size(), 2U);
  EXPECT_EQ(trace.nodes[0].name, "forward");
  EXPECT_FALSE(trace.nodes[0].collective());
  EXPECT_EQ(trace.nodes[0].start_us, 300U);
  EXPECT_EQ(trace.nodes[0].duration_us, 1U);
  EXPECT_TRUE(trace.nodes[1].collective());
  EXPECT_EQ(trace.nodes[1].depends_on, (std::vector<std::uint64_t>{1, 128, 1 << 20}));
  EXPECT_EQ(trace.nodes[1].numbers.at("is_cpu_op"), 1);
  EXPECT_EQ(static_cast<std::uint64_t>(trace.nodes[1].numbers.at("comm_size")), 1ULL << 63);
}

// Bytes by the specification of protobuf's encoding.
TEST(TraceWriter, HasTheBytesOfTheWireFormat) {
  EXPECT_EQ(Message().varint(1, 150).bytes(), "\x08\x96\x01");
  EXPECT_EQ(Message().text(2, "testing").bytes(), "\x12\x07testing");
  EXPECT_EQ(Message().packed(6, {3, 270, 86942}).bytes(), "\x32\x06\x03\x8e\x02\x9e\xa7\x05");
  EXPECT_EQ(Message().packed(6, {}).bytes(), "");
  TraceWriter writer{Attributes()};
  writer.add({.id = 1, .name = "a"});
  EXPECT_EQ(std::move(writer).take(),
            std::string("\x07\x0a\x05") + "0.0.4" + "\x07\x08\x01\x12\x01" + "a" + "\x18\x04");
}

}  // namespace
}  // namespace shardmark::test::trace_writer_test
