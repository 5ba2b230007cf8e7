// SPDX-License-Identifier: Apache-2.0
// The one place that spells what differs between Kokkos 3.4 (Debian 12) and 5.x.
#pragma once

#include <Kokkos_Core.hpp>

namespace shardmark {

using Space = Kokkos::DefaultExecutionSpace;

/// Waits for what was launched on `space`; `reason` says why, where Kokkos can pass it on (3.5 on).
inline void fence(const Space& space, [[maybe_unused]] const char* reason) {
#if KOKKOS_VERSION >= 30500
  space.fence(reason);
#else
  space.fence();
#endif
}

}  // namespace shardmark
