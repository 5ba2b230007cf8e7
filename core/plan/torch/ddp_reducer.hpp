// SPDX-License-Identifier: Apache-2.0
// The Reducer of DistributedDataParallel: gradients go into buckets as they become ready, and a
// bucket is reduced once it is full and all earlier ones are.
//
// Source: torch 2.15, torch/csrc/distributed/c10d/reducer.cpp.
#pragma once

#include <vector>

#include <core/plan/torch/ddp_buckets.hpp>
#include <core/plan/torch/torch_context.hpp>
#include <core/plan/write/step_writer.hpp>

namespace shardmark {

class DdpReducer : private TorchPart {
 public:
  /// The scratch of collectives is declared later.
  explicit DdpReducer(TorchContext& context);

  /// Acquires the first buckets.
  void init();
  /// The first forward after the order is known makes the buckets anew.
  void begin_forward();
  void begin_backward(const MicroBatch& micro);
  /// Where the gradient of a parameter is made; with gradient_as_bucket_view that is its bucket.
  Operand gradient(int param, bool adds);
  /// To be called once the gradient of a parameter is complete in this backward pass.
  void ready(int param);
  void end_backward();
  /// The reduced gradient.
  Operand reduced(int param) const;
  /// Drops the gradients after an update.
  void release();

  /// Steps and micro-batches that are unlike later ones.
  int special_steps() const;
  bool synchronises(const MicroBatch& micro) const { return micro.last || !c_.spec.no_sync; }

 private:
  struct Place {
    int bucket = -1;
    std::int64_t offset = 0;
  };
  struct Bucket {
    std::vector<int> params;
    int slot = no_slot;
    int pending = 0;
  };
  bool views() const { return c_.spec.gradient_as_bucket_view; }
  bool rebuilds() const { return c_.spec.static_graph || !c_.spec.find_unused_parameters; }
  std::vector<Bucket> declare(const DdpBuckets& cut, const char* prefix);
  void use(std::vector<Bucket>& buckets);
  void reduce(Bucket& bucket);
  void count_words(Op op, std::int64_t words);
  Operand in_bucket(int param, bool reads, bool writes) const;

  const std::vector<int> needs_;  // a gradient; backward reaches those that are trained
  std::vector<Bucket> first_, rebuilt_;
  std::vector<Bucket>* buckets_ = nullptr;  // those in use
  std::vector<Place> places_;               // by parameter
  std::vector<std::int64_t> grad_at_;       // by parameter: its offset in grads_
  int grads_ = no_slot;
  std::size_t next_ = 0;  // the next bucket to reduce
  MicroBatch micro_;
  int synchronised_ = 0;  // backward passes
  bool is_rebuilt_ = false;
  int messages_ = 0;
};

}  // namespace shardmark
