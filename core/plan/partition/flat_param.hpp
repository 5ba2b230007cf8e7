// SPDX-License-Identifier: Apache-2.0
// Where parameters lie in a flat buffer that holds several of them.
#pragma once

#include <cstdint>

namespace shardmark {

/// A parameter and its first element in a flat buffer.
struct FlatParam {
  int param = 0;
  std::int64_t offset = 0;
};

}  // namespace shardmark
