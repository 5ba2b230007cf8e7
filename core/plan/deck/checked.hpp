// SPDX-License-Identifier: Apache-2.0
// Arithmetic on counts that refuses results beyond 63 bits, since decks may contain any sizes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <core/error.hpp>

namespace shardmark {

/// `a * b`. Throws SizeError that names `what`.
inline std::int64_t checked_mul(std::int64_t a, std::int64_t b, std::string_view what) {
  std::int64_t r = 0;
  if (__builtin_mul_overflow(a, b, &r))
    throw SizeError(std::string(what) + ": the count leaves 63 bits: choose smaller sizes");
  return r;
}

/// `a + b`. Throws SizeError that names `what`.
inline std::int64_t checked_add(std::int64_t a, std::int64_t b, std::string_view what) {
  std::int64_t r = 0;
  if (__builtin_add_overflow(a, b, &r))
    throw SizeError(std::string(what) + ": the count leaves 63 bits: choose smaller sizes");
  return r;
}

/// `n` rounded up to a multiple of `m`.
inline std::int64_t round_up(std::int64_t n, std::int64_t m, std::string_view what) {
  return checked_add(n, m - 1, what) / m * m;
}

}  // namespace shardmark
