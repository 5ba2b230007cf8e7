// SPDX-License-Identifier: Apache-2.0
#include <core/plan/deepspeed/stage0/stage0_states.hpp>
#include <core/plan/write/state_writer.hpp>

namespace shardmark {

void Stage0States::lay_out() {
  places_.resize(p_.model.params.size());
  const bool muon = is_muon(c_.optimizer());
  for (const bool matrices : {true, false}) {
    Group group;
    group.matrices = matrices;
    for (int id = 0; id < c_.params(); ++id) {
      if (!c_.param(id).updated() || (muon && c_.param(id).hidden_matrix) != matrices) continue;
      places_[id] = {static_cast<int>(groups_.size()), group.elems};
      group.layout.push_back({id, group.elems});
      group.params.push_back(id);
      group.elems += c_.elems(id);
    }
    if (!group.params.empty()) groups_.push_back(std::move(group));
  }
  if (groups_.size() > 1)
    for (std::size_t g = 0; g < groups_.size(); ++g) groups_[g].suffix = "." + std::to_string(g);
  for (int id = 0; id < c_.params(); ++id)
    if (c_.param(id).updated()) updated_.push_back(id);
}

void Stage0States::declare(Group& group) {
  const auto own = [&](std::string_view name, Category category) {
    return w_.slot(std::string(name) + group.suffix, category, Dtype::fp32, group.elems);
  };
  group.param = w_.slot("param" + group.suffix, Category::param, c_.precision.model, group.elems,
                        Tier::device, recorded::params);
  const int master = c_.has_master() ? no_slot : group.param;
  place_state(p_, State::param, group.param, 0, group.layout, 0, group.elems);
  if (group.matrices) {
    group.states = StateSlots(master == no_slot ? own("master", Category::master) : master);
    group.momentum = own("momentum", Category::momentum);
    place_state(p_, State::momentum, group.momentum, 0, group.layout, 0, group.elems);
    orthogonalizer_.declare(group.params);
  } else {
    group.states = StateSlots(c_.optimizer_of(group.matrices), own, master);
  }
  group.states.place(p_, 0, group.layout, 0, group.elems);
}

void Stage0States::init() {
  lay_out();
  for (Group& group : groups_) {
    const std::size_t first_piece = p_.states.size();
    declare(group);
    w_.acquire(group.param);
    init_params(w_, p_, group.param, first_piece);
  }
  frozen_.init(c_);
  for (int id = 0; id < c_.params(); ++id) collectives_.broadcast_bytes(param(id), id);
  for (const Group& group : groups_) {
    if (c_.has_master()) {
      w_.acquire(group.states.master());
      w_.convert(w_.write(group.states.master()), w_.read(group.param));
    }
    group.states.begin_moments(w_);
    if (group.momentum != no_slot) acquire_zeroed(w_, group.momentum);
  }
  if (c_.has_master()) c_.keep_first_sums();
  if (c_.has_master() && !c_.ordered()) step_on_zeros();
}

// Both of DeepSpeed's classes for 16-bit parameters make the optimizer's states by a step on
// gradients of zero. It counts, and weight decay changes the master, but not the parameters. The
// engine scales the loss for ZeRO's own optimizers only, while these two classes unscale. Under
// `ordered`, which exists to compare stages bit by bit, neither is done.
void Stage0States::step_on_zeros() {
  p_.start_up_updates = 1;
  p_.scales_loss = c_.precision.model != Dtype::fp16;
  for (Group& group : groups_) acquire_zeroed(w_, declare_grad32(group));
  scalars_.acquire(0);
  scalars_.clip(0);
  for (const Group& group : groups_) update_master(group, {}, {});
  scalars_.release();
}

int Stage0States::declare_grad32(Group& group) {
  return c_.declare_once(group.grad32, "grad_fp32" + group.suffix, Category::grad, Dtype::fp32,
                         group.elems);
}

Operand Stage0States::param(int id) const {
  if (!c_.param(id).updated()) return frozen_.part(c_, id);
  const Place& place = places_[id];
  return w_.read(groups_[place.group].param, place.offset, c_.elems(id));
}

void Stage0States::update() {
  if (!c_.has_master()) {
    for (const Group& group : groups_) update_tensors(group);
    return;
  }
  // The classes for 16-bit parameters make fp32 copies of all gradients before they update.
  for (Group& group : groups_) {
    w_.acquire(declare_grad32(group));
    for (const FlatParam& f : group.layout)
      w_.convert(w_.write(group.grad32, f.offset, c_.elems(f.param)),
                 w_.read(grads_.slot(f.param)));
  }
  for (const Group& group : groups_) {
    if (group.matrices) scalars_.clip_gradient(w_.update(group.grad32));
    update_master(group, group.params, w_.write(group.param));
  }
}

// fp32 parameters are updated in place, one by one.
void Stage0States::update_tensors(const Group& group) {
  if (group.matrices) orthogonalizer_.acquire();
  for (const FlatParam& f : group.layout) {
    const std::int64_t elems = c_.elems(f.param);
    const int grad = grads_.slot(f.param);
    const UpdatePlaces places = group.states.part(w_, f.offset, f.offset, elems, w_.read(grad));
    if (!group.matrices) {
      scalars_.update_by(c_.optimizer_of(group.matrices), places, {f.param}, {});
      continue;
    }
    if (c_.deck.zero.gradient_clipping > 0) scalars_.clip_gradient(w_.update(grad));
    orthogonalizer_.update(f.param, w_.update(grad), w_.update(group.momentum, f.offset, elems));
    scalars_.update_by_clipped(places, {f.param});
  }
  if (group.matrices) orthogonalizer_.release();
}

void Stage0States::update_master(const Group& group, const std::vector<int>& params,
                                 std::optional<Operand> rounded) {
  const UpdatePlaces places = group.states.whole(w_, w_.read(group.grad32));
  if (group.matrices) {
    orthogonalizer_.acquire();
    for (const FlatParam& f : group.layout)
      orthogonalizer_.update(f.param, w_.update(group.grad32, f.offset, c_.elems(f.param)),
                             w_.update(group.momentum, f.offset, c_.elems(f.param)));
    orthogonalizer_.release();
    scalars_.update_by_clipped(places, params, rounded);
  } else {
    scalars_.update_by(c_.optimizer_of(group.matrices), places, params, rounded);
  }
  w_.release(group.grad32);
}

}  // namespace shardmark
