// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's BF16_Optimizer: stage 1 with bf16 parameters and fp32 gradient accumulation. Every
// rank keeps a full fp32 gradient for ever, which is all-reduced once a step, a parameter group at
// a time; the norm needs no collective, and no overflow is looked for.
//
// Source: DeepSpeed 0.19's runtime/bf16_optimizer.py, and recordings of 0.19.8.
#include <core/plan/deepspeed_writer.hpp>
#include <core/plan/flat_groups.hpp>

namespace shardmark {
namespace {

class Bf16Writer : public DeepSpeedWriter {
 public:
  Bf16Writer(Program& program, const Deck& deck, const Profile& profile, const FlatGroups& groups)
      : DeepSpeedWriter(program, deck, profile), flat_(groups), states_(groups.groups().size()) {}

  void write() {
    init();
    Step step;
    const auto last = static_cast<int>(p_.batch.accumulation) - 1;
    step.micros.push_back(micro(last == 0 ? "micro_only" : "micro_first", 0));
    if (last > 1) step.micros.resize(last, micro("micro_middle", 1));
    if (last > 0) step.micros.push_back(micro("micro_last", last));
    step.boundary = boundary();
    step.update = update();
    p_.steps.push_back(std::move(step));
  }

 private:
  struct GroupSlots {
    int param = no_slot, master = no_slot, momentum = no_slot, variance = no_slot;
    int full = no_slot;  // the fp32 gradient of the whole group
  };

  const std::vector<FlatGroup>& groups() const { return flat_.groups(); }
  std::int64_t own_first(std::size_t g) const { return groups()[g].partition * p_.rank; }
  Operand tensor(int id) const {
    return read_part(states_[flat_.group_of(id)].param, flat_.offset_of(id), elems(id));
  }
  std::vector<Operand> module_params(int module) const {
    std::vector<Operand> operands;
    for (int id : p_.model.params_of(module)) operands.push_back(tensor(id));
    return operands;
  }

  void init() {
    w_.begin(SegmentKind::init, "init", Gradients::none);
    w_.phase(Phase::init);
    p_.sharded = {false, true, true, true};
    for (std::size_t g = 0; g < groups().size(); ++g) {
      const FlatGroup& group = groups()[g];
      GroupSlots& s = states_[g];
      const std::string suffix = groups().size() > 1 ? "." + std::to_string(g) : "";
      s.param = w_.slot("param" + suffix, Category::param, precision_.model, group.padded,
                        Tier::device, recorded::params);
      s.full = w_.slot("full_fp32_gradients" + suffix, Category::grad, Dtype::fp32, group.padded,
                       Tier::device, recorded::full_fp32_gradients);
      s.master = w_.slot("master" + suffix, Category::master, Dtype::fp32, group.partition);
      s.momentum = w_.slot("momentum" + suffix, Category::momentum, Dtype::fp32, group.partition);
      s.variance = w_.slot("variance" + suffix, Category::variance, Dtype::fp32, group.partition);
      place_state(p_, State::param, s.param, 0, group.layout, 0, group.padded);
      for (auto [state, slot] :
           {std::pair{State::master, s.master}, std::pair{State::momentum, s.momentum},
            std::pair{State::variance, s.variance}})
        place_state(p_, state, slot, 0, group.layout, own_first(g), group.partition);
      w_.acquire(s.param);
      init_params(w_, p_, s.param);
    }
    for (int id = 0; id < static_cast<int>(p_.model.params.size()); ++id)
      broadcast_bytes(tensor(id), id);
    for (std::size_t g = 0; g < groups().size(); ++g) {
      const GroupSlots& s = states_[g];
      w_.acquire(s.master);
      w_.compute(Kernel::convert,
                 {w_.write(s.master), read_part(s.param, own_first(g), groups()[g].partition)});
      for (int zeroed : {s.momentum, s.variance, s.full}) acquire_zeroed(w_, zeroed);
    }
    acquire_shared();
    end(Gradients::none);
  }

  int micro(const char* name, int g) {
    const bool first = g == 0, last = g == p_.batch.accumulation - 1;
    const int index =
        w_.begin(SegmentKind::micro, name, first ? Gradients::none : Gradients::accumulated);
    w_.phase(Phase::forward, g);
    compute_.begin_micro(g);
    for (int m : p_.model.computing(VisitKind::pre_forward)) compute_.forward(m, module_params(m));
    w_.phase(Phase::backward, g);
    begin_backward();
    for (int m : p_.model.computing(VisitKind::pre_backward)) {
      backward(m, module_params(m), false);
      for (int id : ready_after(m)) {
        const int full = states_[flat_.group_of(id)].full;
        const std::int64_t at = flat_.offset_of(id);
        if (first)
          w_.compute(Kernel::convert, {write_part(full, at, elems(id)), w_.read(grad_slot(id))});
        else
          w_.compute(Kernel::accumulate,
                     {update_part(full, at, elems(id)), w_.read(grad_slot(id))});
      }
    }
    compute_.end_micro();
    if (last)
      for (std::size_t k = 0; k < groups().size(); ++k)
        all_reduce(w_.update(states_[k].full), predivided(), groups()[k].params);
    end(last ? Gradients::reduced : Gradients::accumulated);
    return index;
  }

  int boundary() {
    const int index = w_.begin(SegmentKind::boundary, "boundary", Gradients::reduced);
    end(Gradients::reduced);
    return index;
  }

  int update() {
    const int index = w_.begin(SegmentKind::update, "update", Gradients::reduced);
    w_.phase(Phase::step);
    acquire_step_scalars(1);
    std::vector<Operand> grads;
    for (const GroupSlots& s : states_) grads.push_back(w_.read(s.full));
    sum_of_squares(0, grads);
    clip(1);
    for (std::size_t g = 0; g < groups().size(); ++g) {
      const GroupSlots& s = states_[g];
      const std::int64_t partition = groups()[g].partition;
      adamw(w_.update(s.master), read_part(s.full, own_first(g), partition), w_.update(s.momentum),
            w_.update(s.variance), groups()[g].params);
      w_.compute(Kernel::convert,
                 {write_part(s.param, own_first(g), partition), w_.read(s.master)});
    }
    if (world() > 1)
      for (std::size_t g = 0; g < groups().size(); ++g) {
        const int param = states_[g].param;
        collective(Op::all_gather, Reduction::none,
                   read_part(param, own_first(g), groups()[g].partition), w_.write(param),
                   groups()[g].params);
      }
    for (int id = 0; id < static_cast<int>(p_.model.params.size()); ++id) w_.release(grad_slot(id));
    release_step_scalars();
    end(Gradients::none);
    return index;
  }

  const FlatGroups& flat_;
  std::vector<GroupSlots> states_;
};

}  // namespace

void write_deepspeed_bf16(Program& program, const Deck& deck, const Profile& profile,
                          const FlatGroups& groups) {
  Bf16Writer(program, deck, profile, groups).write();
}

}  // namespace shardmark
