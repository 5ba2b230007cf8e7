// SPDX-License-Identifier: Apache-2.0
// Where the time of the compute lane went.
#pragma once

#include <cstdint>

namespace shardmark {

/// In ns.
struct LaneTimes {
  std::int64_t init = 0, forward = 0, backward = 0, step = 0;  // by phase, waits included
  std::int64_t copies = 0;   // between host and device: making them, and waiting for them
  std::int64_t exposed = 0;  // waiting for collectives, or in calls that make them progress

  /// Without waiting for other ranks.
  std::int64_t own() const { return forward + backward + step - exposed; }
  /// What has passed since `before`.
  LaneTimes since(const LaneTimes& before) const {
    return {init - before.init, forward - before.forward, backward - before.backward,
            step - before.step, copies - before.copies,   exposed - before.exposed};
  }
};

}  // namespace shardmark
