// SPDX-License-Identifier: Apache-2.0
// The sizes of memory pages, as the system says: many ARM systems have pages of 64 KiB.
#pragma once

#include <cstdint>
#include <string>

namespace shardmark {

/// Bytes of a page of memory.
std::int64_t system_page_bytes();

/// Bytes of the page that the system makes of many small ones, 2 MiB where `size_file` of the
/// kernel does not say.
std::int64_t huge_page_bytes(
    const std::string& size_file = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size");

}  // namespace shardmark
