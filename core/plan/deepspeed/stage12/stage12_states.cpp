// SPDX-License-Identifier: Apache-2.0
#include <core/plan/deepspeed/stage12/stage12_states.hpp>
#include <core/plan/write/state_writer.hpp>

namespace shardmark {

void FlatStates::init() {
  p_.sharded = {false, true, true, true};
  const bool offloads = c_.offloads();
  for (std::size_t g = 0; g < groups().size(); ++g) {
    const FlatGroup& group = groups()[g];
    GroupSlots& s = slots_[g];
    const Tier tier = offloads ? Tier::host : Tier::device;
    auto own = [&](std::string_view name, Category category, bool pinned) {
      return w_.slot(std::string(name) + suffix(g), category, c_.precision.master, group.partition,
                     tier, {}, pinned);
    };
    s.param = w_.slot("param" + suffix(g), Category::param, c_.precision.model, group.padded,
                      Tier::device, recorded::params);
    const auto declare = [&](std::string_view name, Category category) {
      return own(name, category, category == Category::master && offloads && c_.pins_memory());
    };
    s.states = has_matrices(g) ? StateSlots(declare("master", Category::master))
                               : StateSlots(optimizer_of(g), declare);
    if (offloads) {
      s.staging = c_.host_slot("param_staging" + suffix(g), Category::staging, c_.precision.model,
                               group.partition, c_.pins_memory());
      s.grad = own("grad", Category::grad, c_.pins_memory());
    }
    const std::size_t first_piece = p_.states.size();
    place_state(p_, State::param, s.param, 0, group.layout, 0, group.padded);
    s.states.place(p_, 0, group.layout, own_first(g), group.partition);
    w_.acquire(s.param);
    init_params(w_, p_, s.param, first_piece);
  }
  frozen_.init(c_);
  for (int id = 0; id < c_.params(); ++id) collectives_.broadcast_bytes(param(id), id);
  for (std::size_t g = 0; g < groups().size(); ++g) {
    const GroupSlots& s = slots_[g];
    Operand own = w_.read(s.param, own_first(g), groups()[g].partition);
    if (offloads) {
      w_.acquire(s.staging);
      w_.copy(own, w_.write(s.staging));
      own = w_.read(s.staging);
    }
    w_.acquire(s.states.master());
    w_.convert(w_.write(s.states.master()), own);
    s.states.begin_moments(w_);
    if (s.grad != no_slot) acquire_zeroed(w_, s.grad);
  }
}

void FlatStates::update_partition(std::size_t g, Operand grad, bool clipped) {
  const GroupSlots& s = slots_[g];
  const Operand own = w_.write(s.param, own_first(g), groups()[g].partition);
  if (clipped) return scalars_.update_by_clipped(s.states.whole(w_, grad), groups()[g].params, own);
  scalars_.update_by(optimizer_of(g), s.states.whole(w_, grad), groups()[g].params,
                     c_.offloads() ? w_.write(s.staging) : own);
  if (c_.offloads()) w_.copy(w_.read(s.staging), own);
}

void FlatStates::gather_params() {
  for (std::size_t g = 0; g < groups().size(); ++g) {
    if (groups()[g].ranks == 1) continue;
    const int param = slots_[g].param;
    collectives_.issue(Op::all_gather, Reduction::none,
                       w_.read(param, own_first(g), groups()[g].partition), w_.write(param),
                       groups()[g].params, -1, p_.group_of(groups()[g].holders));
  }
}

}  // namespace shardmark
