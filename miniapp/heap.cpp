// SPDX-License-Identifier: Apache-2.0
#include <miniapp/heap.hpp>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace shardmark {

void keep_freed_memory() {
#if defined(__GLIBC__)
  // Measured with gpt2-124m, ZeRO-3, 2 ranks: see README, "Performance".
  mallopt(M_MMAP_MAX, 0);                 // large blocks come from the heap, not from mmap
  mallopt(M_TRIM_THRESHOLD, 0x7fffffff);  // and its end is not given back
  mallopt(M_TOP_PAD, 16 << 20);
#endif
}

}  // namespace shardmark
