// SPDX-License-Identifier: Apache-2.0
// The C library's heap: by default it gives large blocks back to the system when they are freed,
// and the next one is paid for page by page. A step acquires and releases the same sizes again and
// again.
#pragma once

namespace shardmark {

/// Lets the heap keep what is freed, for the rest of the process. Before the first large
/// allocation.
void keep_freed_memory();

/// Gives back what was kept so far: between runs in one process, whose budgets and resident memory
/// would see it.
void give_back_freed_memory();

}  // namespace shardmark
