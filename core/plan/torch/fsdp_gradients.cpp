// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include <core/plan/torch/fsdp_gradients.hpp>

namespace shardmark {

void FsdpGradients::begin_backward(const MicroBatch& micro) {
  micro_ = micro;
}

// A gradient that is alive gets another one added: of an earlier use of a tied weight, or of an
// earlier micro-batch.
void FsdpGradients::backward(int module) {
  std::vector<Operand> grads;
  const std::vector<int> ids = p_.model.params_of(module);
  for (const int id : ids) {
    const int slot = c_.gradients[id];
    if (slot == no_slot) continue;
    const bool adds = w_.alive(slot);
    if (!adds) w_.acquire(slot);
    grads.push_back(w_.whole(slot, adds, true));
  }
  c_.compute.backward(
      module, [&](int id) { return params_.whole(id); }, grads);
  for (const int id : ids)
    if (c_.gradients[id] != no_slot && wider(id) && w_.alive(c_.kept_gradients[id])) keep(id);
}

// Adds a gradient to the sum in a wider type.
void FsdpGradients::keep(int id) {
  w_.add_to(c_.kept_gradients[id], w_.read(c_.gradients[id]));
  w_.release(c_.gradients[id]);
}

void FsdpGradients::post_backward(int group, bool reshards) {
  const FsdpGroup& g = c_.groups[group];
  if (!reduces()) {
    for (const FsdpParam& p : g.params)
      if (p.grad >= 0 && wider(p.id) && w_.alive(c_.gradients[p.id])) keep(p.id);
    if (reshards) params_.reshard(group);
    return;
  }
  if (reshards) params_.reshard(group);
  while (static_cast<std::int64_t>(inputs_.size()) >= c_.spec.max_input_buffers) {
    w_.release(c_.slots[inputs_.front()].input);
    inputs_.pop_front();
  }
  complete();
  if (g.grad_row > 0) reduce(group);
}

// The message is rank-major: one row per rank, which holds that rank's shards of all tensors.
void FsdpGradients::copy_in(const FsdpGroup& g, const FsdpSlots& s) {
  for (const FsdpParam& p : g.params) {
    if (p.grad < 0) continue;
    const int slot =
        w_.alive(c_.kept_gradients[p.id]) ? c_.kept_gradients[p.id] : c_.gradients[p.id];
    if (c_.shares()) {
      Event& e = w_.compute(
          Kernel::interleave,
          {w_.write(s.input, p.grad, g.grad_row * (c_.ranks() - 1) + p.shard), w_.read(slot)});
      e.group = c_.shard_group;
      e.divisor = division_.before;
    } else {
      w_.convert(w_.write(s.input, p.grad, p.shard), w_.read(slot), division_.before);
    }
    w_.release(slot);
  }
}

void FsdpGradients::reduce(int group) {
  const FsdpGroup& g = c_.groups[group];
  const FsdpSlots& s = c_.slots[group];
  const std::vector<int> ids = g.trained();
  if (const auto held = std::ranges::find(outputs_, group);
      held != outputs_.end()) {  // of an earlier micro-batch
    w_.release(s.output);
    outputs_.erase(held);
  }
  w_.acquire(s.input);
  copy_in(g, s);
  inputs_.push_back(group);
  // What is reduced becomes the gradient itself if it is the first and needs no cast and no copy.
  const bool all = !c_.replicates() || reduces_among_replicas();
  int output = s.output;
  if (!all && !w_.alive(s.partial))
    output = s.partial;
  else if (all && !w_.alive(s.grad) && c_.reduce_dtype == w_[s.grad].dtype && !c_.offloads())
    output = s.grad;
  w_.acquire(output);
  if (c_.shares())
    c_.collective(Op::reduce_scatter, division_.scatter, w_.read(s.input), w_.write(output), ids,
                  c_.shard_group);
  else
    w_.convert(w_.write(output), w_.read(s.input));
  if (!all) {
    if (output == s.partial) return;
    w_.accumulate(w_.update(s.partial), w_.read(output));
    w_.release(output);
    return;
  }
  if (c_.replicates()) {
    if (s.partial != no_slot && w_.alive(s.partial)) {
      w_.accumulate(w_.update(output), w_.read(s.partial));
      w_.release(s.partial);
    }
    c_.collective(Op::all_reduce, division_.replicas, w_.read(output), w_.write(output), ids,
                  c_.replica_group);
  }
  pending_ = Pending{group, output};
}

// PyTorch does this on the stream of the reduction, so no computation waits for it: it comes when
// the next group's gradients are complete.
void FsdpGradients::complete() {
  if (!pending_) return;
  const auto [group, output] = *std::exchange(pending_, std::nullopt);
  if (division_.after != 1)
    w_.compute(Kernel::scale, {w_.update(output)}).divisor = division_.after;
  if (output == c_.slots[group].grad) return;
  store(group, output);
  // PyTorch holds a message that all_reduce sent until the end of backward.
  if (c_.replicates() && c_.reduce_dtype != w_[c_.slots[group].grad].dtype)
    outputs_.push_back(group);
  else
    w_.release(output);
}

void FsdpGradients::store(int group, int output) {
  const FsdpSlots& s = c_.slots[group];
  if (!c_.offloads()) return w_.add_to(s.grad, w_.read(output));
  const bool adds = w_.alive(s.grad);
  if (!adds) w_.acquire(s.grad);
  int from = output;
  if (w_[output].dtype != w_[s.grad].dtype) {
    w_.acquire(s.download);
    w_.convert(w_.write(s.download), w_.read(output));
    from = s.download;
  }
  if (!adds) {
    w_.copy(w_.read(from), w_.write(s.grad));
  } else {
    w_.acquire(s.landing);
    w_.copy(w_.read(from), w_.write(s.landing));
    w_.accumulate(w_.update(s.grad), w_.read(s.landing));
    w_.release(s.landing);
  }
  if (from == s.download) w_.release(s.download);
}

void FsdpGradients::finish(bool last) {
  complete();
  if (!last) return;
  for (const int group : inputs_) w_.release(c_.slots[group].input);
  for (const int group : outputs_) w_.release(c_.slots[group].output);
  inputs_.clear();
  outputs_.clear();
}

}  // namespace shardmark
