// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>
#include <vector>

#include <fmt/core.h>
#include <xxhash.h>

#include <io/files/hash.hpp>

namespace shardmark {

std::string hash_hex(std::string_view bytes) {
  return fmt::format("{:016x}", std::uint64_t{XXH3_64bits(bytes.data(), bytes.size())});
}

std::string file_hash_hex(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return "unreadable";
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                       &XXH3_freeState);
  if (!state) throw std::bad_alloc();
  XXH3_64bits_reset(state.get());
  for (std::vector<char> piece(std::size_t{1} << 18); file;) {
    file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    XXH3_64bits_update(state.get(), piece.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (file.bad()) return "unreadable";
  return fmt::format("{:016x}", std::uint64_t{XXH3_64bits_digest(state.get())});
}

FileIdentity identify_file(const std::string& path) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  if (error) return {"unreadable", 0};
  const auto size = static_cast<std::int64_t>(bytes);
  return {size > most_hashed_bytes ? "" : file_hash_hex(path), size};
}

}  // namespace shardmark
