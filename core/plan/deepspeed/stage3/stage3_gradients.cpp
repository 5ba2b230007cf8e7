// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/core.h>

#include <core/plan/deepspeed/stage3/stage3_gradients.hpp>

namespace shardmark {

void ShardedBucket::acquire() {
  for (Dtype type : c_.sent_types()) buckets_.push_back({type});
  if (!c_.knobs.contiguous_gradients) return;
  for (Bucket& bucket : buckets_) {
    const std::string name =
        buckets_.size() > 1 ? fmt::format("bucket.{}", to_string(bucket.type)) : "bucket";
    bucket.slot = w_.slot(name, Category::bucket, bucket.type, c_.knobs.reduce_bucket_size);
    w_.acquire(bucket.slot);
  }
}

ShardedBucket::Bucket& ShardedBucket::bucket_of(int id) {
  return *std::ranges::find(buckets_, c_.sent_as(id), &Bucket::type);
}

void ShardedBucket::add(int id) {
  Bucket& bucket = bucket_of(id);
  const std::int64_t most = c_.knobs.reduce_bucket_size;
  if (!bucket.entries.empty() && c_.param(bucket.entries[0].param).holders != c_.param(id).holders)
    send(bucket);
  if (bucket.held + c_.elems(id) > most && bucket.held > 0) send(bucket);
  collectives_.correct_folded(id, w_.update(grads_.slot(id)));
  Operand at = w_.read(grads_.slot(id));
  if (c_.knobs.contiguous_gradients && bucket.held + c_.elems(id) <= most) {
    // Gradients that were reduced in the buffer itself must be kept before it fills again.
    if (in_flight_ && in_flight_->in(bucket.slot)) receive();
    at = w_.read(bucket.slot, bucket.held, c_.elems(id));
    w_.convert(w_.write(bucket.slot, bucket.held, c_.elems(id)), w_.read(grads_.slot(id)));
    w_.release(grads_.slot(id));
  }
  bucket.entries.push_back({id, at});
  bucket.held += c_.elems(id);
}

void ShardedBucket::send(Bucket& bucket) {
  if (bucket.entries.empty()) return;
  receive();
  Sent sent{bucket.type, std::move(bucket.entries)};
  bucket.entries.clear();
  const bool in_buffer =
      c_.knobs.contiguous_gradients && bucket.held <= c_.knobs.reduce_bucket_size;
  if (in_buffer && !c_.knobs.reduce_scatter) {
    reduce_whole(bucket, sent);
  } else {
    std::ranges::sort(sent.entries, {}, &Entry::param);
    quantized_.active() ? reduce_quantized(sent) : reduce_scatter(sent, sent.entries);
  }
  bucket.held = 0;
  in_flight_ = std::move(sent);
  if (!c_.knobs.overlap_comm || quantized_.active()) receive();
}

std::vector<int> ShardedBucket::ids(std::span<const Entry> entries) {
  std::vector<int> list;
  for (const Entry& e : entries) list.push_back(e.param);
  return list;
}

void ShardedBucket::reduce_whole(const Bucket& bucket, Sent& sent) {
  for (Entry& e : sent.entries)
    e.reduced = w_.read(bucket.slot, e.grad.offset + params_.first(e.param), params_.real(e.param));
  const auto ranks = static_cast<double>(c_.world());
  const double factor = c_.knobs.gradient_predivide_factor;
  Divisors divisors{ranks, 1};
  if (!c_.knobs.prescale_gradients && factor != 1) {
    divisors.before = ranks * factor;
    if (factor != ranks) divisors.after = 1 / factor;
  }
  collectives_.all_reduce(w_.update(bucket.slot, 0, bucket.held), divisors, ids(sent.entries),
                          bucket.type);
}

// What is sent has the type of the message and is rank-major, and each shard is padded. A single
// tensor may be so already.
void ShardedBucket::reduce_scatter(Sent& sent, std::span<Entry> entries) {
  const auto in_type = [&](const Entry& e) { return w_[e.grad.slot].dtype == sent.type; };
  const bool converted = !std::ranges::all_of(entries, in_type);
  Operand data = entries[0].grad;
  const Holders holders = c_.param(entries[0].param).holders;
  const int ranks = p_.mesh.ranks_of(holders), group = p_.group_of(holders);
  // by which it must still be divided
  double left = c_.ordered() ? collectives_.divisor_of(holders) : c_.world();
  if (converted || entries.size() > 1 || c_.elems(entries[0].param) % ranks != 0) {
    std::int64_t row = 0;
    for (const Entry& e : entries) row += params_.shard(e.param);
    const int flat =
        w_.slot(fmt::format("interleaved.{}", flats_++), Category::bucket, sent.type, row * ranks);
    w_.acquire(flat);
    const double divisor = converted ? 1 : left;  // the quotient is rounded in the type sent
    if (divisor != 1) left = 1;
    std::int64_t at = 0;
    for (const Entry& e : entries) {
      Event& interleave =
          w_.compute(Kernel::interleave,
                     {w_.write(flat, at, row * (ranks - 1) + params_.shard(e.param)), e.grad});
      interleave.divisor = divisor;
      interleave.group = group;
      at += params_.shard(e.param);
    }
    sent.made.push_back(flat);
    data = w_.update(flat);
    for (const Entry& e : entries)
      if (w_.alive(grads_.slot(e.param))) w_.release(grads_.slot(e.param));
  }
  const std::int64_t row = data.elems / ranks;
  const Operand own = w_.update(data.slot, data.offset + row * p_.mesh.place_in(holders), row);
  std::int64_t at = own.offset;
  for (Entry& e : entries) {
    e.reduced = w_.read(data.slot, at, params_.real(e.param));
    at += params_.shard(e.param);
  }
  collectives_.divide(data, left);
  collectives_.issue(Op::reduce_scatter, c_.ordered() ? Reduction::average : Reduction::sum, data,
                     own, ids(entries), -1, group);
}

// DeepSpeed converts all gradients of the bucket that have another type before it sends the first.
void ShardedBucket::reduce_quantized(Sent& sent) {
  for (Entry& e : sent.entries) e.grad = as_sent(sent, e);
  for (Entry& e : sent.entries) {
    if (quantized_.quantizes(e.param)) {
      e.reduced = quantized_.reduce(e.param, e.grad);
      sent.made.push_back(e.reduced.slot);
    } else {
      reduce_scatter(sent, {&e, 1});
    }
  }
  quantized_.finish();
}

Operand ShardedBucket::as_sent(Sent& sent, const Entry& e) {
  if (w_[e.grad.slot].dtype == sent.type) return e.grad;
  const int wire =
      c_.declare_once(wires_[static_cast<std::size_t>(e.param)], "wire." + c_.name(e.param),
                      Category::bucket, sent.type, c_.elems(e.param));
  w_.acquire(wire);
  w_.convert(w_.write(wire), e.grad);
  sent.made.push_back(wire);
  return w_.read(wire);
}

// Adds this rank's shards to its gradient partitions, which the first micro-batch overwrites.
void ShardedBucket::receive() {
  if (!in_flight_) return;
  const Sent sent = std::move(*in_flight_);
  in_flight_.reset();
  offload_.release_copied();
  for (const Entry& e : sent.entries) {
    if (params_.real(e.param) > 0 && c_.offloads()) {
      bounce(e.param, e.reduced);
    } else if (params_.real(e.param) > 0) {
      const SubGroupSlots& s = params_.slots_of(e.param);
      w_.store(w_.write(s.grad, params_.groups().offset_of(e.param), params_.real(e.param)),
               e.reduced, !micro_.first);
    }
    if (w_.alive(grads_.slot(e.param))) drop_after_copies(grads_.slot(e.param));
  }
  for (int slot : sent.made) drop_after_copies(slot);
  if (!c_.knobs.overlap_comm) offload_.release_copied();
}

void ShardedBucket::drop_after_copies(int slot) {
  if (c_.offloads())
    offload_.keep_for_copy(slot);
  else
    w_.release(slot);
}

// If the optimizer is on the host, so are DeepSpeed's gradient partitions, but the sums are made on
// the device. Each micro-batch therefore copies a gradient down and up again, or up and down again.
// After the last micro-batch its square is added up, and the gradient goes on in fp32.
void ShardedBucket::bounce(int id, Operand reduced) {
  const auto g = static_cast<std::size_t>(params_.groups().group_of(id));
  const Operand sum =
      w_.update(params_.slots(g).grad, params_.groups().offset_of(id), params_.real(id));
  const int here = c_.declare_once(bounced_[id], "bounced." + c_.name(id), Category::staging,
                                   c_.precision.grad_accum, params_.real(id));
  w_.acquire(here);
  const bool stays = micro_.last && params_.swaps(g) && params_.swapper().stays(id);
  if (!stays || w_[here].dtype != Dtype::fp32) offload_.keep_for_copy(here);
  if (!micro_.first) {
    w_.copy(sum, w_.write(here));
    w_.accumulate(w_.update(here), reduced);
    w_.copy(w_.read(here), sum);
  } else if (w_[reduced.slot].dtype == c_.precision.grad_accum) {
    w_.copy(reduced, sum);
    w_.copy(sum, w_.write(here));
  } else {
    w_.convert(w_.write(here), reduced);
    w_.copy(w_.read(here), sum);
    w_.copy(sum, w_.write(here));
  }
  if (!micro_.last) return;
  if (!params_.has_matrices(g) && c_.counts(id))
    scalars_.add_to_sum(static_cast<int>(g), w_.read(here));
  if (params_.swaps(g)) {
    const Operand grad = offload_.as_fp32(id, w_.read(here));
    params_.swapper().send(id, grad);
    if (!stays && grad.slot != here) offload_.keep_for_copy(grad.slot);
    return;
  }
  const Operand into =
      w_.write(params_.slots(g).grad32, params_.groups().offset_of(id), params_.real(id));
  if (params_.updated_on_host(g))
    offload_.send_down(id, w_.read(here), into);
  else
    w_.convert(into, w_.read(here));
}

void ShardedBucket::finish() {
  for (Bucket& bucket : buckets_) send(bucket);
  receive();
  offload_.release_copied();
}

void ShardedBucket::drop_kept(std::size_t g) {
  if (!params_.swaps(g)) return;
  for (int id : params_.groups().groups()[g].params) {
    if (params_.real(id) == 0 || !params_.swapper().stays(id)) continue;
    const int slot = c_.precision.grad_accum == Dtype::fp32 ? bounced_[id] : offload_.fp32_slot(id);
    w_.drop(slot);
  }
}

}  // namespace shardmark
