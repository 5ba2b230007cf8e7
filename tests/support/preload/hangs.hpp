// SPDX-License-Identifier: Apache-2.0
// Lets a chosen MPI call hang; see hangs.cpp.
#pragma once

namespace shardmark::test::preload {

/// Called first in each MPI function that may hang; does not return if it is the chosen call.
void hang_in(const char* call);

}  // namespace shardmark::test::preload
