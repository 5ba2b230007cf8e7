// SPDX-License-Identifier: Apache-2.0
#include <core/plan/deepspeed/stage12/stage12_states.hpp>

namespace shardmark {

std::vector<Operand> FlatStates::module_params(int module) const {
  std::vector<Operand> operands;
  for (int id : p_.model.params_of(module))
    operands.push_back(
        read_part(states_[flat_.group_of(id)].param, flat_.offset_of(id), elems(id)));
  return operands;
}

void FlatStates::init_states() {
  p_.sharded = {false, true, true, true};
  for (std::size_t g = 0; g < groups().size(); ++g) {
    const FlatGroup& group = groups()[g];
    GroupSlots& s = states_[g];
    const Tier tier = offloads() ? Tier::host : Tier::device;
    auto own = [&](const char* name, Category category, bool pinned = false) {
      return w_.slot(name + suffix(g), category, Dtype::fp32, group.partition, tier, {}, pinned);
    };
    s.param = w_.slot("param" + suffix(g), Category::param, precision_.model, group.padded,
                      Tier::device, recorded::params);
    s.master = own("master", Category::master, offloads() && pins());
    s.momentum = own("momentum", Category::momentum);
    s.variance = own("variance", Category::variance);
    if (offloads()) {
      s.staging = host_slot("param_staging" + suffix(g), Category::staging, precision_.model,
                            group.partition, pins());
      s.grad = own("grad", Category::grad, pins());
    }
    const std::size_t first_piece = p_.states.size();
    place_state(p_, State::param, s.param, 0, group.layout, 0, group.padded);
    for (auto [state, slot] :
         {std::pair{State::master, s.master}, std::pair{State::momentum, s.momentum},
          std::pair{State::variance, s.variance}})
      place_state(p_, state, slot, 0, group.layout, own_first(g), group.partition);
    w_.acquire(s.param);
    init_params(w_, p_, s.param, first_piece);
  }
  for (int id = 0; id < static_cast<int>(p_.model.params.size()); ++id)
    broadcast_bytes(read_part(states_[flat_.group_of(id)].param, flat_.offset_of(id), elems(id)),
                    id);
  for (std::size_t g = 0; g < groups().size(); ++g) {
    const GroupSlots& s = states_[g];
    Operand own = read_part(s.param, own_first(g), groups()[g].partition);
    if (offloads()) {
      w_.acquire(s.staging);
      w_.copy(own, w_.write(s.staging));
      own = w_.read(s.staging);
    }
    w_.acquire(s.master);
    w_.compute(Kernel::convert, {w_.write(s.master), own});
    for (int zeroed : {s.momentum, s.variance, s.grad})
      if (zeroed != no_slot) acquire_zeroed(w_, zeroed);
  }
}

void FlatStates::update_partition(std::size_t g, Operand grad) {
  const GroupSlots& s = states_[g];
  const Operand own = write_part(s.param, own_first(g), groups()[g].partition);
  adamw(w_.update(s.master), grad, w_.update(s.momentum), w_.update(s.variance), groups()[g].params,
        offloads() ? w_.write(s.staging) : own);
  if (offloads()) w_.copy(w_.read(s.staging), own);
}

void FlatStates::gather_params() {
  if (world() == 1) return;
  for (std::size_t g = 0; g < groups().size(); ++g) {
    const int param = states_[g].param;
    collective(Op::all_gather, Reduction::none,
               read_part(param, own_first(g), groups()[g].partition), w_.write(param),
               groups()[g].params);
  }
}

}  // namespace shardmark
