// SPDX-License-Identifier: Apache-2.0
// Bytes as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace shardmark {

/// Four digits in a unit of powers of 1024: "1.234 GiB"; whole bytes below 1 KiB.
std::string human_bytes(std::int64_t bytes);

}  // namespace shardmark
