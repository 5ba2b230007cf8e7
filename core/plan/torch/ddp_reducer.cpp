// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/core.h>

#include <core/plan/torch/ddp_reducer.hpp>
#include <core/plan/write/state_writer.hpp>

namespace shardmark {

DdpReducer::DdpReducer(TorchContext& context) : TorchPart(context), needs_(c_.flow.needing()) {
  const auto bytes = dtype_bytes(Dtype::fp32);
  first_ = declare(first_buckets(p_.model, c_.spec, needs_, bytes), "bucket");
  if (rebuilds()) {
    std::vector<int> order;
    for (const int id : torch_ready_order(p_.model))
      if (p_.model.params[id].trained()) order.push_back(id);
    rebuilt_ =
        declare(cut_into_buckets(p_.model, order, bucket_caps(c_.spec), bytes), "rebuilt_bucket");
  }
  grad_at_.resize(p_.model.params.size());
  std::int64_t at = 0;
  for (const int id : needs_) {
    if (!p_.model.params[id].trained()) continue;
    grad_at_[id] = at;
    at += p_.model.params[id].elems;
  }
  if (!views()) grads_ = w_.slot("grad", Category::grad, Dtype::fp32, at);
}

std::vector<DdpReducer::Bucket> DdpReducer::declare(const DdpBuckets& cut, const char* prefix) {
  std::vector<Bucket> buckets;
  for (const std::vector<int>& params : cut) {
    std::int64_t elems = 0;
    for (const int id : params) elems += p_.model.params[id].elems;
    Bucket b;
    b.params = params;
    b.slot = w_.slot(fmt::format("{}{}", prefix, buckets.size()),
                     views() ? Category::grad : Category::bucket, Dtype::fp32, elems);
    c_.collectives.need(of_partition, Op::all_reduce, Dtype::fp32, elems);
    buckets.push_back(std::move(b));
  }
  return buckets;
}

// Buckets live from one change to the next. What no gradient reaches must be zero.
void DdpReducer::use(std::vector<Bucket>& buckets) {
  if (buckets_ != nullptr)
    for (const Bucket& b : *buckets_) w_.release(b.slot);
  buckets_ = &buckets;
  places_.assign(p_.model.params.size(), {});
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    acquire_zeroed(w_, buckets[i].slot);
    std::int64_t at = 0;
    for (const int id : buckets[i].params) {
      places_[id] = {static_cast<int>(i), at};
      at += p_.model.params[id].elems;
    }
  }
}

void DdpReducer::init() {
  use(first_);
}

int DdpReducer::special_steps() const {
  if (!rebuilds()) return 0;
  return c_.spec.static_graph ? 3 : 2;
}

// Integers that only matter to PyTorch: how many parameters there are, or which ones were used.
void DdpReducer::count_words(Op op, std::int64_t words) {
  write_integers(w_, p_, fmt::format("words{}", messages_++), Dtype::int32, op, words);
}

void DdpReducer::begin_forward() {
  if (!rebuilds() || is_rebuilt_ || synchronised_ < (c_.spec.static_graph ? 2 : 1)) return;
  is_rebuilt_ = true;
  count_words(Op::broadcast, 1 + static_cast<std::int64_t>(needs_.size()));
  count_words(Op::broadcast, static_cast<std::int64_t>(rebuilt_.size()));
  use(rebuilt_);
}

Operand DdpReducer::in_bucket(int param, bool reads, bool writes) const {
  const Place& place = places_[param];
  return w_.part((*buckets_)[place.bucket].slot, place.offset, p_.model.params[param].elems, reads,
                 writes);
}

void DdpReducer::begin_backward(const MicroBatch& micro) {
  micro_ = micro;
  if (!views() && micro.first) w_.acquire(grads_);
  if (!synchronises(micro)) return;
  next_ = 0;
  for (Bucket& b : *buckets_)
    b.pending = static_cast<int>(
        std::ranges::count_if(b.params, [&](int id) { return p_.model.params[id].trained(); }));
  if (c_.spec.static_graph && synchronised_ == 0)
    count_words(Op::all_reduce, static_cast<std::int64_t>(needs_.size()));
}

Operand DdpReducer::gradient(int param, bool adds) {
  if (views()) return in_bucket(param, adds || !micro_.first, true);
  return w_.part(grads_, grad_at_[param], p_.model.params[param].elems, adds || !micro_.first,
                 true);
}

// Each rank divides before the sum.
void DdpReducer::ready(int param) {
  if (!synchronises(micro_)) return;
  const double ranks = c_.ordered() ? 1 : p_.partition_ranks();
  if (!views())
    w_.convert(in_bucket(param, false, true),
               w_.read(grads_, grad_at_[param], p_.model.params[param].elems), ranks);
  else if (ranks != 1)
    w_.compute(Kernel::scale, {in_bucket(param, true, true)}).divisor = ranks;
  --(*buckets_)[places_[param].bucket].pending;
  for (; next_ < buckets_->size() && (*buckets_)[next_].pending == 0; ++next_)
    reduce((*buckets_)[next_]);
}

void DdpReducer::reduce(Bucket& bucket) {
  std::vector<int> trained;
  for (const int id : bucket.params)
    if (p_.model.params[id].trained()) trained.push_back(id);
  c_.collectives.issue(Op::all_reduce, c_.ordered() ? Reduction::average : Reduction::sum,
                       w_.read(bucket.slot), w_.write(bucket.slot), trained);
}

void DdpReducer::end_backward() {
  if (!synchronises(micro_)) return;
  if (c_.spec.find_unused_parameters && !c_.spec.static_graph)
    count_words(Op::all_reduce, static_cast<std::int64_t>(needs_.size()));
  if (!views())
    for (const Bucket& b : *buckets_)
      for (const int id : b.params)
        if (p_.model.params[id].trained())
          w_.convert(w_.write(grads_, grad_at_[id], p_.model.params[id].elems),
                     in_bucket(id, true, false));
  ++synchronised_;
}

Operand DdpReducer::reduced(int param) const {
  if (views()) return in_bucket(param, true, false);
  return w_.read(grads_, grad_at_[param], p_.model.params[param].elems);
}

void DdpReducer::release() {
  if (!views()) w_.release(grads_);
}

}  // namespace shardmark
