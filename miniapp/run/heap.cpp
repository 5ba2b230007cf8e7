// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>  // defines which C library this is

#include <miniapp/run/heap.hpp>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace shardmark {

void keep_freed_memory() {
#if defined(__GLIBC__)
  // A refusal costs only time, so it is not an error.
  static_cast<void>(mallopt(M_MMAP_MAX, 0));  // large blocks come from the heap, not from mmap
  static_cast<void>(
      mallopt(M_TRIM_THRESHOLD, 0x7fffffff));  // and the end of the heap stays with the process
  static_cast<void>(mallopt(M_TOP_PAD, 16 << 20));
#endif
}

void give_back_freed_memory() {
#if defined(__GLIBC__)
  static_cast<void>(malloc_trim(0));  // returns false if there is nothing to return
#endif
}

}  // namespace shardmark
