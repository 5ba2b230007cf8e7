// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include <core/plan/deepspeed/stage3/stage3_gradients.hpp>

namespace shardmark {

void ShardedGradients::add_to_bucket(int id) {
  if (held_ + elems(id) > knobs_.reduce_bucket_size && held_ > 0) flush();
  Operand at = w_.read(grad_slot(id));
  if (knobs_.contiguous_gradients && held_ + elems(id) <= knobs_.reduce_bucket_size) {
    // What was reduced in the buffer itself must be kept before it fills again.
    if (in_flight_ && in_flight_->reduced.slot == bucket_) retire();
    at = read_part(bucket_, held_, elems(id));
    w_.compute(Kernel::convert, {write_part(bucket_, held_, elems(id)), w_.read(grad_slot(id))});
    w_.release(grad_slot(id));
  }
  in_bucket_.push_back({id, at});
  held_ += elems(id);
}

void ShardedGradients::flush() {
  if (in_bucket_.empty()) return;
  retire();
  Sent sent;
  sent.entries = std::move(in_bucket_);
  in_bucket_.clear();
  const bool in_buffer = knobs_.contiguous_gradients && held_ <= knobs_.reduce_bucket_size;
  if (in_buffer && !knobs_.reduce_scatter)
    reduce_whole(sent);
  else
    reduce_scatter(sent);
  held_ = 0;
  in_flight_ = std::move(sent);
  if (!knobs_.overlap_comm) retire();
}

std::vector<int> ShardedGradients::ids(const Sent& sent) const {
  std::vector<int> list;
  for (const Entry& e : sent.entries) list.push_back(e.param);
  return list;
}

void ShardedGradients::reduce_whole(Sent& sent) {
  sent.whole = true;
  sent.reduced = update_part(bucket_, 0, held_);
  const auto ranks = static_cast<double>(world());
  const double factor = knobs_.gradient_predivide_factor;
  Divisors divisors{ranks, 1};
  if (!knobs_.prescale_gradients && factor != 1) {
    divisors.before = ranks * factor;
    if (factor != ranks) divisors.after = 1 / factor;
  }
  all_reduce(sent.reduced, divisors, ids(sent));
}

// Rank-major and padded shard by shard, unless a tensor alone is that already.
void ShardedGradients::reduce_scatter(Sent& sent) {
  std::sort(sent.entries.begin(), sent.entries.end(),
            [](const Entry& a, const Entry& b) { return a.param < b.param; });
  Operand data = sent.entries[0].grad;
  double left = ordered() ? 1 : world();  // what is still to be divided by
  if (sent.entries.size() > 1 || elems(sent.entries[0].param) % world() != 0) {
    std::int64_t row = 0;
    for (const Entry& e : sent.entries) row += shard(e.param);
    const int flat = w_.slot(fmt::format("interleaved.{}", flats_++), Category::bucket,
                             precision_.model, row * world());
    w_.acquire(flat);
    const double divisor = travels_itself(flat) ? left : 1;
    if (divisor != 1) left = 1;
    std::int64_t at = 0;
    for (const Entry& e : sent.entries) {
      w_.compute(Kernel::interleave,
                 {write_part(flat, at, row * (world() - 1) + shard(e.param)), e.grad})
          .divisor = divisor;
      at += shard(e.param);
    }
    sent.flattened = flat;
    data = w_.update(flat);
    for (Entry& e : sent.entries)
      if (w_.alive(grad_slot(e.param))) w_.release(grad_slot(e.param));
  }
  data.reads = data.writes = true;
  const std::int64_t row = data.elems / world();
  sent.reduced = update_part(data.slot, data.offset + row * p_.rank, row);
  const std::vector<int> list = ids(sent);
  as_comm_type(data, [&](Operand wire) {
    divide(wire, left);
    Operand own = wire;
    own.offset += row * p_.rank;
    own.elems = row;
    collective(Op::reduce_scatter, ordered() ? Reduction::average : Reduction::sum, wire, own,
               list);
  });
}

// Adds this rank's shards to its gradient partitions; the first micro-batch overwrites.
void ShardedGradients::retire() {
  if (!in_flight_) return;
  const Sent sent = std::move(*in_flight_);
  in_flight_.reset();
  settle_copies();
  std::int64_t at = sent.reduced.offset;
  for (const Entry& e : sent.entries) {
    const std::int64_t from = sent.whole ? at + shard(e.param) * p_.rank : at;
    at += sent.whole ? elems(e.param) : shard(e.param);
    if (real(e.param) > 0 && offloads()) {
      bounce(e.param, read_part(sent.reduced.slot, from, real(e.param)));
    } else if (real(e.param) > 0) {
      const GroupSlots& s = slots_[groups_.group_of(e.param)];
      const Operand into =
          w_.part(s.grad, groups_.offset_of(e.param), real(e.param), !first_micro_, true);
      w_.compute(first_micro_ ? Kernel::convert : Kernel::accumulate,
                 {into, read_part(sent.reduced.slot, from, real(e.param))});
    }
    if (w_.alive(grad_slot(e.param))) drop_after_copies(grad_slot(e.param));
  }
  if (sent.flattened != no_slot) drop_after_copies(sent.flattened);
  if (!knobs_.overlap_comm) settle_copies();
}

void ShardedGradients::drop_after_copies(int slot) {
  if (offloads())
    in_transit(slot);
  else
    w_.release(slot);
}

// DeepSpeed's partitions of gradients are the host's where the optimizer is, and the sums are made
// on the device: each micro-batch sends a gradient down and back, or back and down. After the last
// one it is looked at and goes on in fp32.
void ShardedGradients::bounce(int id, Operand reduced) {
  const auto g = static_cast<std::size_t>(groups_.group_of(id));
  const Operand sum = update_part(slots_[g].grad, groups_.offset_of(id), real(id));
  if (bounced_.empty()) bounced_.assign(p_.model.params.size(), no_slot);
  const int here = lazily(bounced_[id], "bounced." + name(id), Category::staging,
                          precision_.grad_accum, real(id));
  w_.acquire(here);
  const bool stays = last_micro_ && swaps(g) && swapper_.stays(id);
  if (!stays || w_[here].dtype != Dtype::fp32) in_transit(here);
  if (!first_micro_) {
    w_.copy(sum, w_.write(here));
    w_.compute(Kernel::accumulate, {w_.update(here), reduced});
    w_.copy(w_.read(here), sum);
  } else if (precision_.grad_accum == precision_.model) {
    w_.copy(reduced, sum);
    w_.copy(sum, w_.write(here));
  } else {
    w_.compute(Kernel::convert, {w_.write(here), reduced});
    w_.copy(w_.read(here), sum);
    w_.copy(sum, w_.write(here));
  }
  if (!last_micro_) return;
  look_at(static_cast<int>(g), w_.read(here));
  if (swaps(g)) {
    const Operand grad = as_fp32(id, w_.read(here));
    swapper_.send(id, grad);
    if (!stays && grad.slot != here) in_transit(grad.slot);
    return;
  }
  const Operand into = write_part(slots_[g].grad32, groups_.offset_of(id), real(id));
  if (on_host(g))
    send_down(id, w_.read(here), into);
  else
    w_.compute(Kernel::convert, {into, w_.read(here)});
}

void ShardedGradients::drop_kept(std::size_t g) {
  if (!swaps(g)) return;
  for (int id : groups_.groups()[g].params) {
    if (real(id) == 0 || !swapper_.stays(id)) continue;
    const int slot = precision_.grad_accum == Dtype::fp32 ? bounced_[id] : fp32_slot(id);
    if (w_.alive(slot)) w_.release(slot);
  }
}

}  // namespace shardmark
