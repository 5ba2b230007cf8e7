// SPDX-License-Identifier: Apache-2.0
#include <core/plan/torch/fsdp_params.hpp>

namespace shardmark {

// Casts this rank's shards to the type of the message. With offload they are copied to the device
// first.
void FsdpParams::copy_in(int g, Operand into) {
  const FsdpSlots& s = slots(g);
  if (!c_.offloads()) {
    w_.convert(into, w_.read(s.param));
    return;
  }
  w_.acquire(s.upload);
  w_.copy(w_.read(s.param), w_.write(s.upload));
  w_.convert(into, w_.read(s.upload));
  w_.release(s.upload);
}

void FsdpParams::unshard(int g) {
  State& state = states_[g];
  if (state.on_its_way || state.place == Place::whole) return;
  state.on_its_way = true;
  if (!c_.shares()) return;
  const bool parts = state.place == Place::parts;
  const int ranks = parts ? c_.reshard_ranks : c_.ranks();
  const FsdpSlots& s = slots(g);
  const std::int64_t row = w_[s.wire].elems / ranks;
  const Operand own = w_.write(s.wire, row * (p_.partition_rank() % ranks), row);
  w_.acquire(s.wire);
  if (parts)
    w_.convert(own, w_.read(s.resharded));
  else
    copy_in(g, own);
  c_.collective(Op::all_gather, Reduction::none, own, w_.write(s.wire), {},
                parts ? c_.reshard_group : c_.shard_group);
}

void FsdpParams::wait(int g, bool in_forward) {
  State& state = states_[g];
  if (!state.on_its_way) return;
  state.on_its_way = false;
  const FsdpSlots& s = slots(g);
  if (in_forward) release_kept();
  w_.acquire(s.gathered);
  if (!c_.shares()) {
    copy_in(g, w_.write(s.gathered));
    state.place = Place::whole;
    return;
  }
  const bool parts = state.place == Place::parts;
  const int ranks = parts ? c_.reshard_ranks : c_.ranks();
  const std::int64_t row = w_[s.wire].elems / ranks;
  const int times = c_.ranks() / ranks;  // shards of the whole mesh in one rank's part
  for (const FsdpParam& p : group(g).params) {
    const std::int64_t shard = p.shard * times;
    w_.compute(Kernel::rearrange, {w_.write(s.gathered, p.at * c_.ranks(), p.shard * c_.ranks()),
                                   w_.read(s.wire, p.at * times, row * (ranks - 1) + shard)})
        .group = parts ? c_.reshard_group : c_.shard_group;
  }
  if (parts) w_.release(s.resharded);
  state.place = Place::whole;
  if (in_forward)
    kept_ = g;
  else
    w_.release(s.wire);
}

void FsdpParams::release_kept() {
  if (kept_) w_.release(slots(*kept_).wire);
  kept_.reset();
}

void FsdpParams::drop_unused_gather(int g) {
  State& state = states_[g];
  if (state.on_its_way && c_.shares()) w_.release(slots(g).wire);
  state.on_its_way = false;
}

void FsdpParams::reshard(int g) {
  State& state = states_[g];
  if (state.place == Place::whole) w_.release(slots(g).gathered);
  if (state.place == Place::parts) w_.release(slots(g).resharded);
  state.place = Place::shards;
}

// If reshard_after_forward is an integer, each rank keeps a part of every whole tensor.
void FsdpParams::reshard_after_forward(int g) {
  if (c_.reshard_group == no_group) return reshard(g);
  const FsdpSlots& s = slots(g);
  w_.acquire(s.resharded);
  std::int64_t at = 0;
  for (const FsdpParam& p : group(g).params) {
    const std::int64_t whole = p.shard * c_.ranks(), part = whole / c_.reshard_ranks;
    w_.convert(w_.write(s.resharded, at, part),
               w_.read(s.gathered,
                       p.at * c_.ranks() + part * (p_.partition_rank() % c_.reshard_ranks), part));
    at += part;
  }
  w_.release(s.gathered);
  states_[g].place = Place::parts;
}

Operand FsdpParams::whole(int id) const {
  const auto [g, index] = c_.place_of[id];
  const FsdpParam& p = group(g).params[index];
  return w_.read(slots(g).gathered, p.at * c_.ranks(), p_.model.params[id].elems);
}

}  // namespace shardmark
