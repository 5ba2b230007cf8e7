// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's BF16_Optimizer: stage 1 with bf16 parameters and fp32 gradient accumulation. Every
// rank keeps a full fp32 gradient for ever, a flat one a parameter group, which the engine
// all-reduces once a step in buckets of groups; the norm needs no collective, and no overflow is
// looked for.
//
// Source: DeepSpeed 0.19's runtime/bf16_optimizer.py, and recordings of 0.19.8.
#include <core/plan/deepspeed/stage12/stage12_states.hpp>

namespace shardmark {
namespace {

class Bf16Writer : public FlatStates {
 public:
  Bf16Writer(Program& program, const Deck& deck, const Profile& profile, const FlatGroups& groups)
      : FlatStates(program, deck, profile, groups) {}

  void write() {
    init();
    write_step(false);
  }

 private:
  void init() {
    w_.begin(SegmentKind::init, "init", Gradients::none);
    w_.phase(Phase::init);
    init_states();
    for (std::size_t g = 0; g < groups().size(); ++g) {
      full_.push_back(w_.slot("full_fp32_gradients" + suffix(g), Category::grad, Dtype::fp32,
                              groups()[g].padded, Tier::device, recorded::full_fp32_gradients));
      acquire_zeroed(w_, full_.back());
    }
    acquire_shared();
    end(Gradients::none);
  }

  int micro(const char* name, int g) override {
    const bool first = g == 0, last = g == p_.batch.accumulation - 1;
    const int index =
        w_.begin(SegmentKind::micro, name, first ? Gradients::none : Gradients::accumulated);
    w_.phase(Phase::forward, g);
    compute_.begin_micro(g);
    for (int m : p_.model.computing(VisitKind::pre_forward)) compute_.forward(m, module_params(m));
    w_.phase(Phase::backward, g);
    begin_backward();
    for (int m : p_.model.computing(VisitKind::pre_backward)) {
      compute_.recompute_before(m, [&](int again) { return module_params(again); });
      backward(m, module_params(m), false);
      for (int id : ready_after(m)) {
        const int full = full_[flat_.group_of(id)];
        const std::int64_t at = flat_.offset_of(id);
        if (first)
          w_.compute(Kernel::convert, {write_part(full, at, elems(id)), w_.read(grad_slot(id))});
        else
          w_.compute(Kernel::accumulate,
                     {update_part(full, at, elems(id)), w_.read(grad_slot(id))});
      }
    }
    compute_.end_micro();
    if (last) reduce_all();
    end(last ? Gradients::reduced : Gradients::accumulated);
    return index;
  }

  // As stage 0 does with tensors, with groups: several that make one bucket are flattened by a
  // copy.
  void reduce_all() {
    std::vector<std::size_t> bucket;
    std::int64_t held = 0;
    for (std::size_t g = 0; g < groups().size(); ++g) {
      bucket.push_back(g);
      held += groups()[g].padded;
      if (held <= engine_bucket_elems && g + 1 < groups().size()) continue;
      flush(bucket, held);
      bucket.clear();
      held = 0;
    }
  }

  void flush(const std::vector<std::size_t>& bucket, std::int64_t held) {
    if (bucket.size() == 1)
      return all_reduce(w_.update(full_[bucket[0]]), predivided(), groups()[bucket[0]].params);
    const int flat = w_.slot("bucket" + suffix(bucket[0]), Category::bucket, Dtype::fp32, held);
    w_.acquire(flat);
    std::vector<int> params;
    const Divided divided = beside_copies(flat, predivided());
    auto copy = [&](bool back) {
      std::int64_t at = 0;
      for (std::size_t g : bucket) {
        const std::int64_t size = groups()[g].padded;
        if (back)
          convert(w_.write(full_[g]), read_part(flat, at, size), divided.copies.after);
        else
          convert(write_part(flat, at, size), w_.read(full_[g]), divided.copies.before);
        at += size;
      }
    };
    for (std::size_t g : bucket)
      params.insert(params.end(), groups()[g].params.begin(), groups()[g].params.end());
    copy(false);
    all_reduce(w_.update(flat), divided.reduction, params);
    copy(true);
    w_.release(flat);
  }

  int boundary() override {
    const int index = w_.begin(SegmentKind::boundary, "boundary", Gradients::reduced);
    end(Gradients::reduced);
    return index;
  }

  int update() override {
    const int index = w_.begin(SegmentKind::update, "update", Gradients::reduced);
    w_.phase(Phase::step);
    acquire_step_scalars(1);
    std::vector<Operand> grads;
    for (int full : full_) grads.push_back(w_.read(full));
    sum_of_squares(0, grads);
    clip(1);
    for (std::size_t g = 0; g < groups().size(); ++g)
      update_partition(g, read_part(full_[g], own_first(g), groups()[g].partition));
    gather_params();
    for (int id = 0; id < static_cast<int>(p_.model.params.size()); ++id) w_.release(grad_slot(id));
    release_step_scalars();
    end(Gradients::none);
    return index;
  }

  std::vector<int> full_;  // by group: the fp32 gradient of all of it
};

}  // namespace

void write_deepspeed_bf16(Program& program, const Deck& deck, const Profile& profile,
                          const FlatGroups& groups) {
  Bf16Writer(program, deck, profile, groups).write();
}

}  // namespace shardmark
