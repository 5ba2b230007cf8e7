// SPDX-License-Identifier: Apache-2.0
#include <core/memory/buffer.hpp>
#include <core/system_pages.hpp>
#include <miniapp/execute/huge_pages.hpp>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace shardmark {

void prefer_huge_pages(Tier tier, std::byte* data, std::int64_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  if (!device_is_host) return;  // device memory, or pinned memory
  static_cast<void>(tier);
  static const auto page = static_cast<std::uintptr_t>(huge_page_bytes());
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t first = (begin + page - 1) / page * page;
  const std::uintptr_t last = (begin + static_cast<std::uintptr_t>(bytes)) / page * page;
  if (first < last) static_cast<void>(madvise(data + (first - begin), last - first, MADV_HUGEPAGE));
#else
  static_cast<void>(tier), static_cast<void>(data), static_cast<void>(bytes);
#endif
}

}  // namespace shardmark
