// SPDX-License-Identifier: Apache-2.0
// What tests see of the stand-in for CUDA events.
#pragma once

namespace shardmark::test::stand_in {

/// Advances the clock of the stream by a millisecond.
void product_passed();
/// Returns how many events were created and not destroyed.
int events_alive();

}  // namespace shardmark::test::stand_in
