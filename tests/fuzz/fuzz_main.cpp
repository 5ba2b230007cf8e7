// SPDX-License-Identifier: Apache-2.0
// What libFuzzer calls, for the reader SHARDMARK_TEST_READER.
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>

#include <fmt/format.h>

#include <tests/fuzz/readers.hpp>

// GCC and clang give a function that fmt/core.h declares different names, so the system's libfmt,
// which GCC compiled, lacks the one that clang asks for. fmt/format.h defines it where it is used.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  std::string text;
  fmt::vformat_to(std::back_inserter(text), "", fmt::make_format_args());
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const shardmark::test::Reader read = shardmark::test::readers().at(SHARDMARK_TEST_READER);
  read({reinterpret_cast<const char*>(data), size});
  return 0;
}
