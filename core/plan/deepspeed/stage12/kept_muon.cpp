// SPDX-License-Identifier: Apache-2.0
// Muon at DeepSpeed's stages 1 and 2. A rank keeps the whole gradient of each matrix that touches
// its partition, and so it makes the whole update without another collective: ranks that share a
// matrix make the same update and each applies its own slice. They also keep the whole momentum of
// such a matrix, in the type of the gradients. The momentum of a step is staged until the step is
// known not to be skipped.
//
// Source: DeepSpeed 0.19's stage_1_and_2.py, get_flat_partition, _muon_staging_momentum and
// _commit_muon_momentum.
#include <core/plan/deepspeed/stage12/flat_muon.hpp>
#include <core/plan/write/state_writer.hpp>

namespace shardmark {
namespace {

class KeptMatrices final : public Muon {
 public:
  KeptMatrices(StageContext& context, const FlatStates& states, FlatBuckets& buckets)
      : Muon(context, muon_placement(context.stage(), false, false)),
        states_(states),
        buckets_(buckets),
        slots_(states.groups().size()),
        offset_(context.program.model.params.size(), -1) {}

  void init() override {
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

  void keep_momentum() override {
    for (const GroupSlots& s : slots_)
      if (s.momentum != no_slot) w_.convert(w_.write(s.momentum), w_.read(s.staged));
  }

  void release_updates() override {
    if (updates_ != no_slot) w_.release(updates_);
  }

 private:
  struct GroupSlots {
    int momentum = no_slot, staged = no_slot;
  };

  void declare_buffers() {
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
  void place(int slot, int id) {
    Program& p = c_.program;
    const OwnedSlice own = states_.owned(id);
    const auto add = [&](std::vector<StatePiece>& pieces, std::int64_t first, std::int64_t end) {
      if (first < end)
        pieces.push_back({State::momentum, slot, offset_[id] + first,
                          c_.param(id).first_elem + first, end - first});
    };
    add(p.states, own.first, own.first + own.elems);
    add(p.copies, 0, own.first);
    add(p.copies, own.first + own.elems, c_.elems(id));
  }

  std::size_t batches() const override { return 1; }

  Matrices gather(std::size_t) override {
    if (updates_ != no_slot) w_.acquire(updates_);
    end_ = 0;
    Matrices list;
    for (std::size_t g = 0; g < slots_.size(); ++g)
      for (const FlatParam& f : states_.groups()[g].layout) {
        const std::int64_t at = offset_[f.param], elems = c_.elems(f.param);
        if (at < 0 || !buckets_.kept(f.param)) continue;
        list.push_back({f.param, buckets_.whole_grad(f.param),
                        w_.read(slots_[g].momentum, at, elems),
                        w_.write(slots_[g].staged, at, elems)});
      }
    return list;
  }

  // Updates are tensors of their own beside the buffer of gradients, if something else keeps that
  // alive.
  void after(const Matrix& m) override {
    if (updates_ == no_slot) return;
    const Operand update = w_.write(updates_, end_, m.grad.elems);
    w_.convert(update, w_.read(m.grad));
    buckets_.replace(m.id, update);
    end_ += m.grad.elems;
  }

  const FlatStates& states_;
  FlatBuckets& buckets_;
  std::vector<GroupSlots> slots_;     // by group
  std::vector<std::int64_t> offset_;  // by parameter: in its group's momentum; -1 if it has none
  int updates_ = no_slot;             // if they lie apart from the gradients
  std::int64_t end_ = 0;              // of those that are made
};

}  // namespace

std::unique_ptr<Muon> muon_of_kept_matrices(StageContext& context, const FlatStates& states,
                                            FlatBuckets& buckets) {
  return std::make_unique<KeptMatrices>(context, states, buckets);
}

}  // namespace shardmark
