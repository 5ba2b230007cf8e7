// SPDX-License-Identifier: Apache-2.0
// How long something takes that ranks do together.
#pragma once

#include <vector>

#include <miniapp/ranks/peers.hpp>

namespace shardmark {

/// Collective over `group`. For each of several things that the ranks did together, the seconds
/// from the last rank's start to the last rank's end. All ranks leave a barrier at different times:
/// that one waits for another to arrive belongs to no collective. `starts_s` and `ends_s` are this
/// rank's readings of one clock (GroupClock), as many on all ranks. Even where the clocks of
/// hosts do not agree, a result is neither shorter than on the fastest rank nor longer than on the
/// slowest one, because no rank starts after the last start or ends after the last end.
std::vector<double> spans(const std::vector<double>& starts_s, const std::vector<double>& ends_s,
                          Peers& group);

}  // namespace shardmark
