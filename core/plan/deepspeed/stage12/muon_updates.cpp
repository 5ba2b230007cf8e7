// SPDX-License-Identifier: Apache-2.0
#include <core/plan/deepspeed/stage12/muon_updates.hpp>
#include <core/plan/write/state_writer.hpp>

namespace shardmark {

MuonUpdates::MuonUpdates(DeepSpeedContext& context, const FlatStates& states, FlatBuckets& buckets)
    : c_(context),
      w_(context.writer),
      states_(states),
      buckets_(buckets),
      orthogonalizer_(context),
      slots_(states.groups().size()),
      offset_(context.program.model.params.size(), -1) {}

void MuonUpdates::init() {
  c_.program.updates_lack_scale = c_.precision.model == Dtype::fp16;
  for (std::size_t g = 0; g < states_.groups().size(); ++g) {
    if (!states_.has_matrices(g)) continue;
    std::int64_t end = 0;
    for (const FlatParam& f : states_.groups()[g].layout) {
      if (!states_.owns(f.param)) continue;
      offset_[f.param] = end;
      end += c_.elems(f.param);
    }
    if (end == 0) continue;
    GroupSlots& s = slots_[g];
    const Dtype type = buckets_.kept_type();
    s.momentum = w_.slot("momentum" + states_.suffix(g), Category::momentum, type, end);
    s.staged = w_.slot("staged_momentum" + states_.suffix(g), Category::staging, type, end,
                       Tier::device, recorded::staged_momentum);
    for (const FlatParam& f : states_.groups()[g].layout)
      if (offset_[f.param] >= 0) place(s.momentum, f.param);
    acquire_zeroed(w_, s.momentum);
    acquire_zeroed(w_, s.staged);
  }
  declare_buffers();
}

void MuonUpdates::declare_buffers() {
  std::vector<int> matrices;
  std::int64_t elems = 0;
  bool others = false;  // whether the buffer of gradients holds those of AdamW too
  for (int id = 0; id < c_.params(); ++id) {
    const Param& p = c_.param(id);
    if (!states_.owns(id) || !buckets_.kept(id)) continue;
    others = others || !p.hidden_matrix;
    if (!p.hidden_matrix) continue;
    elems += p.elems;
    matrices.push_back(id);
  }
  if (elems == 0) return;
  if ((others && buckets_.contiguous()) || buckets_.separate_accum())
    updates_ = w_.slot("updates", Category::grad, buckets_.kept_type(), elems, Tier::device,
                       recorded::partition_gradients);
  orthogonalizer_.declare(matrices);
}

// The owned slice is this rank's part of the state; what it holds of others' parts are copies.
void MuonUpdates::place(int slot, int id) {
  Program& p = c_.program;
  const OwnedSlice own = states_.owned(id);
  const auto add = [&](std::vector<StatePiece>& pieces, std::int64_t first, std::int64_t end) {
    if (first < end)
      pieces.push_back({State::momentum, slot, offset_[id] + first, c_.param(id).first_elem + first,
                        end - first});
  };
  add(p.states, own.first, own.first + own.elems);
  add(p.copies, 0, own.first);
  add(p.copies, own.first + own.elems, c_.elems(id));
}

void MuonUpdates::make_updates() {
  if (updates_ != no_slot) w_.acquire(updates_);
  orthogonalizer_.acquire();
  std::int64_t end = 0;
  for (std::size_t g = 0; g < slots_.size(); ++g)
    for (const FlatParam& f : states_.groups()[g].layout) {
      const std::int64_t at = offset_[f.param], elems = c_.elems(f.param);
      if (at < 0 || !buckets_.kept(f.param)) continue;
      const Operand grad = buckets_.whole_grad(f.param);
      orthogonalizer_.update(f.param, grad, c_.read_part(slots_[g].momentum, at, elems),
                             c_.write_part(slots_[g].staged, at, elems));
      if (updates_ == no_slot) continue;
      const Operand update = c_.write_part(updates_, end, elems);
      c_.convert(update, c_.read_part(grad.slot, grad.offset, elems));
      buckets_.replace(f.param, update);
      end += elems;
    }
  orthogonalizer_.release();
}

void MuonUpdates::release_updates() {
  if (updates_ != no_slot) w_.release(updates_);
}

void MuonUpdates::keep_momentum() {
  for (const GroupSlots& s : slots_)
    if (s.momentum != no_slot)
      w_.compute(Kernel::convert, {w_.write(s.momentum), w_.read(s.staged)});
}

}  // namespace shardmark
