// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shardmark {

/// The exponent of two of a head's slope: -8 (h + 1) / n, where n is the largest power of two up to
/// the number of heads. Heads from n on lie between these (Press et al., ALiBi, 2022).
constexpr float alibi_exponent(std::int64_t head, std::int64_t heads) {
  std::int64_t n = 1;
  while (2 * n <= heads) n *= 2;
  const auto place = head < n ? static_cast<float>(head + 1) : static_cast<float>(head - n) + 0.5f;
  return -8.0f * place / static_cast<float>(n);
}

}  // namespace shardmark
