// SPDX-License-Identifier: Apache-2.0
// Copies between host and device: one queue, as the plan's copy lane is one. With
// `machine.host_link_gbps` they are as slow as a link of that bandwidth: the data moves at once,
// and a copy counts as done when the link would have carried it. With a lane of the device, copies
// go on beside the compute stream, and the host learns their times when it waits for all.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <core/kokkos_shim.hpp>
#include <core/plan/interpret/copy_volume.hpp>
#include <miniapp/execute/copy_lane.hpp>
#include <miniapp/execute/link_times.hpp>

namespace shardmark {

class CopyEngine {
 public:
  /// `gb_per_s`: of the link that is emulated, each way; empty: none is.
  CopyEngine(Space space, std::optional<double> gb_per_s)
      : space_(std::move(space)), gb_per_s_(gb_per_s) {}

  /// Copies `bytes`; done at the end that it returns, never earlier than bytes / bandwidth after
  /// the copies before it. `to` may be used only then.
  Carried start(Direction direction, std::int64_t bytes, void* to, const void* from);

  /// Copies go on that lane from now on, if there is one; not with an emulated link.
  void copies_on(std::unique_ptr<CopyLane> lane) {
    if (!gb_per_s_) lane_ = std::move(lane);
  }
  /// Null: start() copies at once. Else it is start_on_lane() that copies.
  CopyLane* lane() const { return lane_.get(); }
  CopyLane::Number start_on_lane(Direction direction, std::int64_t bytes, void* to,
                                 const void* from);
  /// Waits for all copies on the lane, in the order in which they were started.
  std::vector<Carried> finish_lane();

  /// The compute lane waited for a copy.
  void waited(Direction direction, std::int64_t ns) { at(direction).exposed_ns += ns; }

  /// Of the whole run.
  const LinkVolume& carried() const { return carried_; }
  /// Since `reset_times`.
  const LinkTimesByDirection& times() const { return times_; }
  void reset_times() { times_ = {}; }

 private:
  LinkTimes& at(Direction d) { return times_[static_cast<std::size_t>(d)]; }

  Space space_;
  std::optional<double> gb_per_s_;
  LinkVolume carried_{};
  LinkTimesByDirection times_{};
  std::int64_t free_ns_ = 0;  // when the last copy is done
  std::unique_ptr<CopyLane> lane_;
};

}  // namespace shardmark
