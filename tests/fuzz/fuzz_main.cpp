// SPDX-License-Identifier: Apache-2.0
// What libFuzzer calls, for the reader SHARDMARK_TEST_READER.
#include <cstddef>
#include <cstdint>

#include <tests/fuzz/readers.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const shardmark::test::Reader read = shardmark::test::readers().at(SHARDMARK_TEST_READER);
  read({reinterpret_cast<const char*>(data), size});
  return 0;
}
