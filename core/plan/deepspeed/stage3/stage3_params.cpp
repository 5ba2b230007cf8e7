// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include <core/plan/deepspeed/stage3/stage3_params.hpp>
#include <core/plan/write/state_writer.hpp>
#include <core/text.hpp>

namespace shardmark {

ShardedParams::ShardedParams(StageContext& context, const SubGroups& groups)
    : StagePart(context),
      swapper_(w_, c_.deck),
      groups_(groups),
      slots_(groups.groups().size()),
      state_{Coordinator(p_.model, c_.knobs), std::vector<Operand>(p_.model.params.size())},
      param_swapper_(w_, c_.deck),
      quantized_(context) {
  for (const Holders h : all_values<Holders>)
    primary_[h] = {p_.group_of(h), p_.mesh.ranks_of(h), p_.mesh.place_in(h)};
  find_flat_groups();
  secondary_.group = no_group;
  if (c_.knobs.hpz_partition_size <= 1) return;
  const auto size =
      static_cast<int>(std::min<std::int64_t>(c_.knobs.hpz_partition_size, c_.world()));
  secondary_ = {add_block(p_, "hpz", size), size, p_.partition_rank() % size};
}

std::int64_t ShardedParams::real(int id) const {
  return std::clamp<std::int64_t>(c_.elems(id) - first(id), 0, shard(id));
}

bool ShardedParams::updated_on_host(std::size_t g) const {
  const auto n = static_cast<double>(slots_.size());
  const double first = std::floor((1.0 - c_.deck.zero.offload_optimizer.ratio) * n);
  return c_.offloads() && (swaps(g) || static_cast<double>(g) >= first);
}

std::string GatherState::key() const {
  std::string text = coordinator.key();
  for (const auto& [slot, count] : users) text += fmt::format(";{}x{}", slot, count);
  text += fmt::format(";{}", join(secondary, ","));
  text += fmt::format(";{}", join(copied, ","));
  for (const auto& [id, buffer] : buffered) text += fmt::format(";{}@{}", id, buffer);
  return text;
}

// The shards of a parameter group lie in one buffer of at most max_in_cpu elements. In a sub-group
// that does not fit into it each shard lies by itself; shards that are large enough lie in files.
void ShardedParams::find_flat_groups() {
  const OffloadSpec& spec = c_.deck.zero.offload_param;
  flat_.assign(slots_.size(), true);
  if (!param_swapper_.active()) return;
  std::int64_t left = spec.max_in_cpu;
  std::size_t g = 0;
  for (std::size_t j = 0; j < p_.model.param_groups.size(); ++j) {
    std::int64_t all = 0;
    for (int id : p_.model.param_groups[j]) all += shard(id);
    const std::int64_t room = std::min(all, std::max<std::int64_t>(left, 0));
    left -= all;
    std::int64_t end = 0, used = 0;
    for (; end < all; ++g) {
      const std::int64_t size = groups_.groups()[g].elems;
      end += size;
      flat_[g] = end <= room;
      used += flat_[g] ? size : 0;
    }
    if (room > used)
      rests_.push_back(w_.slot(fmt::format("param_rest.{}", j), Category::param, c_.precision.model,
                               room - used, Tier::host, recorded::param_partitions, true));
  }
}

void ShardedParams::declare_shards(const SubGroup& group) {
  for (int id : group.params) {
    const FlatParam alone{id, 0};
    const bool file = param_swapper_.swaps(shard(id));
    const int slot = file ? param_swapper_.add(id, c_.name(id), shard(id))
                          : w_.slot("param." + c_.name(id), Category::param, c_.precision.model,
                                    shard(id), Tier::host, recorded::param_partitions,
                                    c_.deck.zero.offload_param.pin_memory);
    if (!file) own_slots_[id] = slot;
    place_state(p_, State::param, slot, 0, {&alone, 1}, first(id), shard(id));
    if (!file) acquire_zeroed(w_, slot);
  }
}

void ShardedParams::declare_frozen() {
  for (int id = 0; id < c_.params(); ++id) {
    if (c_.param(id).updated()) continue;
    const FlatParam alone{id, 0};
    const int slot = own_slots_[id] =
        w_.slot("param." + c_.name(id), Category::param, c_.precision.model, shard(id),
                on_host() ? Tier::host : Tier::device, recorded::param_partitions,
                on_host() && c_.deck.zero.offload_param.pin_memory);
    place_state(p_, State::param, slot, 0, {&alone, 1}, first(id), shard(id));
    acquire_zeroed(w_, slot);
  }
}

void ShardedParams::declare_group(std::size_t g) {
  const SubGroup& group = groups_.groups()[g];
  SubGroupSlots& s = slots_[g];
  if (flat_[g])
    s.param = w_.slot("param" + suffix(g), Category::param, c_.precision.model, group.elems,
                      on_host() ? Tier::host : Tier::device, recorded::param_partitions, on_host());
  else
    declare_shards(group);
  s.grad = w_.slot("grad" + suffix(g), Category::grad, c_.precision.grad_accum, group.elems,
                   c_.offloads() ? Tier::host : Tier::device, recorded::grad_partitions,
                   c_.offloads() && c_.pins_memory());
  declare_states(g);
  place_states(g);
  if (flat_[g]) acquire_zeroed(w_, s.param);
}

void ShardedParams::declare_states(std::size_t g) {
  const SubGroup& group = groups_.groups()[g];
  SubGroupSlots& s = slots_[g];
  const bool swaps = swapper_.swaps(group.elems);
  const Tier tier = updated_on_host(g) ? Tier::host : Tier::device;
  const auto declare = [&](std::string_view name, Category category) {
    const std::string full = std::string(name) + suffix(g);
    return swaps ? swapper_.declare_file(full, category, group.elems)
                 : w_.slot(full, category, c_.precision.master, group.elems, tier);
  };
  if (has_matrices(g) && swaps && !c_.knobs.muon_momentum_in_memory) {
    s.momentum = declare("momentum", Category::momentum);
    s.states = StateSlots(declare("master", Category::master), {s.momentum});
  } else if (has_matrices(g)) {
    s.momentum =
        w_.slot("momentum" + suffix(g), Category::momentum, c_.precision.comm, group.elems, tier);
    s.states = StateSlots(declare("master", Category::master));
  } else {
    s.states = StateSlots(optimizer_of(g), declare);
  }
  if (swaps) {
    s.swapped = swapper_.add_group(s.states, group.elems);
    for (int id : group.params)
      swapper_.add_gradient(s.swapped, id, c_.name(id), groups_.offset_of(id), real(id));
  } else if (c_.offloads()) {
    s.grad32 = w_.slot("grad_fp32" + suffix(g), Category::grad, Dtype::fp32, group.elems, tier, {},
                       tier == Tier::host && c_.pins_memory());
  }
}

void ShardedParams::place_states(std::size_t g) {
  const SubGroupSlots& s = slots_[g];
  for (int id : groups_.groups()[g].params) {
    const FlatParam alone{id, 0};
    const std::int64_t at = groups_.offset_of(id);
    if (s.param != no_slot)
      place_state(p_, State::param, s.param, at, {&alone, 1}, first(id), shard(id));
    s.states.place(p_, at, {&alone, 1}, first(id), shard(id));
    if (s.momentum != no_slot)
      place_state(p_, State::momentum, s.momentum, at, {&alone, 1}, first(id), shard(id));
  }
}

void ShardedParams::begin_files() {
  for (int slot : rests_) w_.acquire(slot);
  std::vector<std::int64_t> largest;  // shards of the sub-group that needs most to be written back
  if (std::ranges::find(flat_, false) != flat_.end()) {
    const auto most = std::ranges::max_element(groups_.groups(), {}, &SubGroup::elems);
    for (int id : most->params) largest.push_back(shard(id));
  }
  param_swapper_.begin(largest);
}

Operand ShardedParams::own_shard(int id, bool reads, bool writes) const {
  const bool alone = !c_.param(id).updated();  // in no sub-group
  const SubGroupSlots& s = alone ? SubGroupSlots{} : slots_[groups_.group_of(id)];
  if (s.param != no_slot) return w_.part(s.param, groups_.offset_of(id), shard(id), reads, writes);
  if (own_slots_[id] != no_slot) return w_.part(own_slots_[id], 0, shard(id), reads, writes);
  const Operand there = param_swapper_.shard(id, state_.buffered);
  return w_.part(there.slot, there.offset, there.elems, reads, writes);
}

void ShardedParams::build(int id, bool dropped) {
  const int full = gathered_slot(id);
  w_.acquire(full);
  w_.compute(Kernel::init_param, {w_.write(full, 0, c_.elems(id))}, {&id, 1});
  collectives_.broadcast_bytes(w_.read(full, 0, c_.elems(id)), id);
  const bool file = param_swapper_.is_file(id);
  if (file && dropped) param_swapper_.take_buffer(id, state_.buffered);
  if (real(id) > 0 && (!file || dropped)) {
    Operand into = own_shard(id, false, true);
    into.elems = real(id);
    const Operand own = w_.read(full, first(id), real(id));
    if (on_host())
      w_.copy(own, into);
    else
      w_.convert(into, own);
  }
  if (file && dropped) param_swapper_.write_first(id, state_.buffered);
  state_.where[id] = w_.read(full, 0, c_.elems(id));
  if (dropped) keep_secondary(id);
  w_.release(full);
}

void ShardedParams::master_from_param(std::size_t g, Operand master) {
  const SubGroupSlots& s = slots_[g];
  if (s.param != no_slot) return convert_between(w_.read(s.param), master, suffix(g));
  for (int id : groups_.groups()[g].params) {
    param_swapper_.bring_in(id, state_.buffered);
    convert_between(own_shard(id, true, false), part_of(master, id), "." + c_.name(id));
    state_.buffered.erase(id);
  }
}

void ShardedParams::param_from_master(std::size_t g, Operand master) {
  const SubGroupSlots& s = slots_[g];
  if (s.param != no_slot) return convert_between(master, w_.write(s.param), suffix(g));
  for (int id : groups_.groups()[g].params) {
    const Operand into =
        param_swapper_.is_file(id) ? param_swapper_.place_to_write(id) : own_shard(id, false, true);
    convert_between(part_of(master, id), into, "." + c_.name(id));
  }
  param_swapper_.write_back();
}

Operand ShardedParams::part_of(Operand master, int id) const {
  master.offset += groups_.offset_of(id);
  master.elems = shard(id);
  return master;
}

void ShardedParams::convert_between(Operand from, Operand to, const std::string& what) {
  from = w_.read(from), to = w_.write(to);
  const Slot &source = w_[from.slot], &destination = w_[to.slot];
  if (source.tier == destination.tier)
    w_.convert(to, from);
  else if (source.dtype == destination.dtype)
    w_.copy(from, to);
  else
    convert_across(from, to, what);
}

// torch converts on the host's side of the link, in pageable memory, so that what crosses the link
// has the device's type.
void ShardedParams::convert_across(Operand from, Operand to, const std::string& what) {
  const bool down = w_[to.slot].tier == Tier::host;
  const Dtype dtype = w_[down ? from.slot : to.slot].dtype;
  const auto [it, fresh] = transit_of_.try_emplace(what, no_slot);
  if (fresh) it->second = c_.host_slot("transit" + what, Category::staging, dtype, from.elems);
  const int transit = it->second;
  w_.acquire(transit);
  if (down) {
    w_.copy(from, w_.write(transit));
    w_.convert(to, w_.read(transit));
  } else {
    w_.convert(w_.write(transit), from);
    w_.copy(w_.read(transit), to);
  }
  w_.release(transit);
}

}  // namespace shardmark
