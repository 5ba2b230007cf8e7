// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <comm/nccl/nccl_check.hpp>
#include <comm/nccl/nccl_stream.hpp>
#include <miniapp/execute/copy_lane.hpp>

namespace shardmark {
namespace {

std::int64_t ns_between(const CudaEvent& earlier, const CudaEvent& later) {
  return static_cast<std::int64_t>(later.ms_since(earlier) * 1e6);
}

class CopyStream : public CopyLane {
 public:
  explicit CopyStream(cudaStream_t compute) : compute_(compute) {}

  Number start(Direction direction, std::int64_t bytes, void* to, const void* from) override {
    Copy copy{direction, bytes, take(), take(), take(), {}};
    copy.ready.record(compute_);
    copy.ready.make_wait(lane_.get());
    copy.begin.record(lane_.get());
    SHARDMARK_CUDA(cudaMemcpyAsync(
        to, from, static_cast<std::size_t>(bytes),
        direction == Direction::device_to_host ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice,
        lane_.get()));
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
    SHARDMARK_CUDA(cudaStreamSynchronize(compute_));
    SHARDMARK_CUDA(cudaStreamSynchronize(lane_.get()));
    const CudaEvent& last = open_.back().end;
    for (const Copy& c : open_)
      done.push_back({c.direction, c.bytes, ns_between(c.begin, last), ns_between(c.end, last),
                      c.held.empty() ? 0 : ns_between(c.held.front(), c.held.back())});
    finished_ += open_.size();
    for (Copy& c : open_) {
      for (CudaEvent* e : {&c.ready, &c.begin, &c.end}) spare_.push_back(std::move(*e));
      for (CudaEvent& e : c.held) spare_.push_back(std::move(e));
    }
    open_.clear();
    return done;
  }

 private:
  struct Copy {
    Direction direction;
    std::int64_t bytes;
    CudaEvent ready;              // recorded on the compute stream when the copy was started
    CudaEvent begin, end;         // recorded on this lane
    std::vector<CudaEvent> held;  // recorded on the compute stream before and after it waits
  };

  CudaEvent take() {
    if (spare_.empty()) return CudaEvent(CudaEvent::Timing::yes);
    CudaEvent event = std::move(spare_.back());
    spare_.pop_back();
    return event;
  }

  cudaStream_t compute_;
  CudaStream lane_;
  std::vector<Copy> open_;
  std::vector<CudaEvent> spare_;
  Number finished_ = 0;
};

}  // namespace

std::unique_ptr<CopyLane> make_copy_lane(void* compute_stream) {
  return std::make_unique<CopyStream>(static_cast<cudaStream_t>(compute_stream));
}

}  // namespace shardmark
