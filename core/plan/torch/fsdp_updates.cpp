// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <core/plan/torch/fsdp_updates.hpp>
#include <core/plan/write/state_writer.hpp>

namespace shardmark {

std::int64_t FsdpUpdates::trained_count() const {
  return std::ranges::count_if(p_.model.params, [](const Param& p) { return p.trained(); });
}

// fp32 parameters are their own master.
void FsdpUpdates::place(int group) {
  const FsdpSlots& s = c_.slots[group];
  for (const FsdpParam& f : c_.groups[group].params) {
    if (f.held == 0) continue;
    const FlatParam alone{f.id, 0};
    const auto place_in_param = [&](State state) {
      place_state(p_, state, s.param, f.at, {&alone, 1}, f.first, f.held);
    };
    place_in_param(State::param);
    if (f.grad < 0)
      place_in_param(State::master);
    else
      s.states.place(p_, f.at, f.state, {&alone, 1}, f.first, f.held);
  }
}

void FsdpUpdates::init() {
  p_.sharded = {true, true, true, true};
  for (std::size_t g = 0; g < c_.groups.size(); ++g) {
    const std::size_t first_piece = p_.states.size();
    place(static_cast<int>(g));
    const FsdpSlots& s = c_.slots[g];
    w_.acquire(s.param);
    init_params(w_, p_, s.param, first_piece);
    if (c_.groups[g].grad_row > 0) s.states.begin_moments(w_);
  }
  acquire_zeroed(w_, steps_);
  c_.collectives.acquire();
  c_.compute.acquire_persistent();
}

void FsdpUpdates::boundary() {
  std::vector<Operand> grads;
  for (std::size_t g = 0; g < c_.groups.size(); ++g)
    if (c_.groups[g].grad_row > 0) grads.push_back(w_.read(c_.slots[g].grad));
  const bool sends = c_.clips && c_.shares();
  scalars_.norm(grads, sends ? c_.shard_group : no_group, trained_count());
}

void FsdpUpdates::update() {
  for (std::size_t g = 0; g < c_.groups.size(); ++g) update_group(static_cast<int>(g));
  for (const FsdpSlots& s : c_.slots)
    if (s.grad != no_slot) w_.release(s.grad);
  scalars_.release();
}

// Tensors that lie side by side in all buffers are updated together.
void FsdpUpdates::update_group(int group) {
  const FsdpSlots& s = c_.slots[group];
  std::vector<int> ids;
  FsdpParam run{};
  const auto write = [&] {
    if (ids.empty()) return;  // a rank that holds nothing of a tensor updates no element of it
    const UpdatePlaces places =
        s.states.part(w_, run.at, run.state, run.held, w_.read(s.grad, run.grad, run.held));
    write_update(w_, c_.optimizer, places, scalars_.clip(), ids);
  };
  for (const FsdpParam& p : c_.groups[group].params) {
    if (p.grad < 0) continue;
    const bool follows = !ids.empty() && run.at + run.held == p.at &&
                         run.grad + run.held == p.grad && run.state + run.held == p.state;
    if (!follows) {
      write();
      ids.clear();
      run = p;
    } else {
      run.held += p.held;
    }
    ids.push_back(p.id);
  }
  write();
}

}  // namespace shardmark
