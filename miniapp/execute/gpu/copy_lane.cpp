// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <comm/nccl/nccl_check.hpp>
#include <comm/nccl/nccl_stream.hpp>
#include <miniapp/execute/copy_lane.hpp>

namespace shardmark {
namespace {

std::int64_t ns_between(const DeviceEvent& earlier, const DeviceEvent& later) {
  return static_cast<std::int64_t>(later.ms_since(earlier) * 1e6);
}

class CopyStream : public CopyLane {
 public:
  explicit CopyStream(device::Stream compute) : compute_(compute) {}

  Number start(Direction direction, std::int64_t bytes, void* to, const void* from) override {
    Copy copy{direction, bytes, take(), take(), take(), {}};
    copy.ready.record(compute_);
    copy.ready.make_wait(lane_.get());
    copy.begin.record(lane_.get());
    SHARDMARK_RUNTIME(MemcpyAsync, to, from, static_cast<std::size_t>(bytes),
                      direction == Direction::device_to_host ? SHARDMARK_GPU(MemcpyDeviceToHost)
                                                             : SHARDMARK_GPU(MemcpyHostToDevice),
                      lane_.get());
    copy.end.record(lane_.get());
    open_.push_back(std::move(copy));
    return finished_ + open_.size();
  }

  void hold_compute(Number copy) override {
    if (copy <= finished_) return;
    Copy& c = open_[copy - finished_ - 1];
    if (c.held.empty()) c.held.push_back(take());
    c.held.front().record(compute_);
    c.end.make_wait(compute_);
    if (c.held.size() < 2) c.held.push_back(take());
    c.held.back().record(compute_);
  }

  std::vector<Done> finish() override {
    std::vector<Done> done;
    if (open_.empty()) return done;
    SHARDMARK_RUNTIME(StreamSynchronize, compute_);
    SHARDMARK_RUNTIME(StreamSynchronize, lane_.get());
    const DeviceEvent& last = open_.back().end;
    for (const Copy& c : open_)
      done.push_back({c.direction, c.bytes, ns_between(c.begin, last), ns_between(c.end, last),
                      c.held.empty() ? 0 : ns_between(c.held.front(), c.held.back())});
    finished_ += open_.size();
    for (Copy& c : open_) {
      for (DeviceEvent* e : {&c.ready, &c.begin, &c.end}) spare_.push_back(std::move(*e));
      for (DeviceEvent& e : c.held) spare_.push_back(std::move(e));
    }
    open_.clear();
    return done;
  }

 private:
  struct Copy {
    Direction direction;
    std::int64_t bytes;
    DeviceEvent ready;              // recorded on the compute stream when the copy was started
    DeviceEvent begin, end;         // recorded on this lane
    std::vector<DeviceEvent> held;  // recorded on the compute stream before and after it waits
  };

  DeviceEvent take() {
    if (spare_.empty()) return DeviceEvent(DeviceEvent::Timing::yes);
    DeviceEvent event = std::move(spare_.back());
    spare_.pop_back();
    return event;
  }

  device::Stream compute_;
  DeviceStream lane_;
  std::vector<Copy> open_;
  std::vector<DeviceEvent> spare_;
  Number finished_ = 0;
};

}  // namespace

std::unique_ptr<CopyLane> make_copy_lane(void* compute_stream) {
  return std::make_unique<CopyStream>(static_cast<device::Stream>(compute_stream));
}

}  // namespace shardmark
