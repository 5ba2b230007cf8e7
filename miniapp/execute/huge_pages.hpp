// SPDX-License-Identifier: Apache-2.0
// Large pages for large host memory: the first touch of 256 MiB costs a third, and the processor
// finds addresses faster.
#pragma once

#include <cstddef>
#include <cstdint>

#include <core/plan/deck/types.hpp>

namespace shardmark {

/// Asks the system for huge pages in `bytes` from `data`. Advice only: where it is not taken, or
/// the memory is a device's, nothing changes. Local.
void prefer_huge_pages(Tier tier, std::byte* data, std::int64_t bytes);

}  // namespace shardmark
