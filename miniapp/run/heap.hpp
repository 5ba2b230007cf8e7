// SPDX-License-Identifier: Apache-2.0
// Settings of the C library's heap. By default it returns large blocks to the system when they are
// freed, and the next block costs a page fault per page. A step acquires and releases the same
// sizes again and again.
#pragma once

namespace shardmark {

/// Makes the heap keep freed memory for the rest of the process. To be called before the first
/// large allocation.
void keep_freed_memory();

/// Returns the memory that the heap kept to the system. To be called between runs in one process,
/// since it would count in the budgets and the resident memory of the next run.
void give_back_freed_memory();

}  // namespace shardmark
