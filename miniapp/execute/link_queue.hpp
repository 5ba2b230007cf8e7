// SPDX-License-Identifier: Apache-2.0
// Copies between host and device, one after another, as the copy lane of a plan has them. There are
// three ways, of which a session has one:
//   at once          a copy is done when start() returns
//   emulated link    the same, but the copy counts as done only when a link of the bandwidth
//                    `machine.host_link_gbps` would have carried it
//   lane of a device copies go on beside the compute stream; finish() tells how long they took
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <core/kokkos_shim.hpp>
#include <core/plan/interpret/copy_volume.hpp>
#include <miniapp/execute/copy_lane.hpp>
#include <miniapp/execute/lane_times.hpp>

namespace shardmark {

/// The copies of one rank between host and device. Nothing here is collective.
class LinkQueue {
 public:
  /// A copy that was started, and when the link carries it (zero on a lane of the device).
  struct Started {
    std::uint64_t number = 0;
    Carried carried;
  };

  /// `gb_per_s` is the bandwidth of the emulated link, in each direction; empty: none is emulated.
  LinkQueue(const Space& space, std::optional<double> gb_per_s)
      : space_(space), gb_per_s_(gb_per_s) {}

  /// Uses a lane of the device from now on, if there is one and no link is emulated.
  void copies_on(std::unique_ptr<CopyLane> lane) {
    if (!gb_per_s_) lane_ = std::move(lane);
  }
  bool on_lane() const { return lane_ != nullptr; }

  /// Copies `bytes` bytes. On an emulated link the copy ends no earlier than bytes / bandwidth
  /// after the copies before it.
  Started start(Direction direction, std::int64_t bytes, void* to, const void* from);
  /// What the compute lane does from now on comes after the copy. Where the host must wait for
  /// that, it calls `progress` again and again.
  void hold(std::uint64_t number, const std::function<void()>& progress);
  /// Waits for the copies on a lane of the device. Returns when it carried each of them since the
  /// last call, in the order in which they were started; empty without such a lane.
  std::vector<Carried> finish();

  /// Records that the compute lane waited for a copy.
  void waited(Direction direction, std::int64_t ns) { times_[direction].exposed_ns += ns; }
  /// Of the whole run.
  const LinkVolume& carried() const { return carried_; }
  /// Since `reset_times`.
  const LinkTimesByDirection& times() const { return times_; }
  void reset_times() { times_ = {}; }

 private:
  Started copy_now(Direction direction, std::int64_t bytes, void* to, const void* from);

  Space space_;
  std::optional<double> gb_per_s_;
  LinkVolume carried_{};
  LinkTimesByDirection times_{};
  std::int64_t free_ns_ = 0;  // when the last copy is done
  std::unique_ptr<CopyLane> lane_;
};

}  // namespace shardmark
