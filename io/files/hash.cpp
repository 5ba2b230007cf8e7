// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include <fmt/format.h>
#include <xxhash.h>

#include <io/files/hash.hpp>

namespace shardmark {

std::string hash_hex(std::string_view bytes) {
  return fmt::format("{:016x}", std::uint64_t{XXH3_64bits(bytes.data(), bytes.size())});
}

}  // namespace shardmark
