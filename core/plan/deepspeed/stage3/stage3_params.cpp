// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <core/plan/deck/checked.hpp>
#include <core/plan/deepspeed/stage3/stage3_params.hpp>

namespace shardmark {

ShardedParams::ShardedParams(Program& program, const Deck& deck, const Profile& profile,
                             const SubGroups& groups)
    : DeepSpeedWriter(program, deck, profile),
      groups_(groups),
      slots_(groups.groups().size()),
      swapper_(w_, deck),
      stand_{Coordinator(program.model, deck.zero.knobs),
             std::vector<Operand>(program.model.params.size()),
             {},
             {},
             {},
             {}},
      primary_{0, program.world, program.rank},
      gathered_(program.model.params.size(), no_slot),
      secondary_slots_(program.model.params.size(), no_slot),
      param_swapper_(w_, deck) {
  find_flat_groups();
  secondary_.group = no_group;
  if (knobs_.hpz_partition_size <= 1) return;
  const auto size = static_cast<int>(std::min<std::int64_t>(knobs_.hpz_partition_size, world()));
  secondary_ = {add_block(program, "hpz", size), size, program.rank % size};
}

std::string ShardedParams::Stand::key() const {
  std::string text = coordinator.key();
  for (const auto& [slot, count] : users) text += fmt::format(";{}x{}", slot, count);
  text += fmt::format(";{}", fmt::join(secondary, ","));
  for (const auto& [id, buffer] : buffered) text += fmt::format(";{}@{}", id, buffer);
  return text;
}

// Shards of a parameter group lie in one buffer, as far as max_in_cpu goes. A sub-group that is not
// all in it has its shards by themselves: those that are worth it in files.
void ShardedParams::find_flat_groups() {
  const OffloadSpec& spec = deck_.zero.offload_param;
  flat_.assign(slots_.size(), true);
  own_slots_.assign(p_.model.params.size(), no_slot);
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
      rests_.push_back(w_.slot(fmt::format("param_rest.{}", j), Category::param, precision_.model,
                               room - used, Tier::host, recorded::param_partitions, true));
  }
}

void ShardedParams::declare_shards(const SubGroup& group) {
  for (int id : group.params) {
    const FlatParam alone{id, 0};
    const bool file = param_swapper_.swaps(shard(id));
    const int slot =
        file ? param_swapper_.add(id, name(id), shard(id))
             : w_.slot("param." + name(id), Category::param, precision_.model, shard(id),
                       Tier::host, recorded::param_partitions, deck_.zero.offload_param.pin_memory);
    if (!file) own_slots_[id] = slot;
    place_state(p_, State::param, slot, 0, {&alone, 1}, shard(id) * p_.rank, shard(id));
    if (!file) acquire_zeroed(w_, slot);
  }
}

void ShardedParams::declare_group(std::size_t g) {
  const SubGroup& group = groups_.groups()[g];
  GroupSlots& s = slots_[g];
  auto slot = [&](const char* name, Category category, Dtype dtype, std::string_view kind,
                  bool host, bool pinned = false) {
    return w_.slot(name + suffix(g), category, dtype, group.elems, host ? Tier::host : Tier::device,
                   kind, host && pinned);
  };
  if (flat_[g])
    s.param = slot("param", Category::param, precision_.model, recorded::param_partitions,
                   params_on_host(), true);
  else
    declare_shards(group);
  s.grad = slot("grad", Category::grad, precision_.grad_accum, recorded::grad_partitions,
                offloads(), pins());
  if (swapper_.swaps(group.elems)) {
    s.swapped = swapper_.add_group(suffix(g), group.elems);
    s.master = swapper_.master(s.swapped);
    s.momentum = swapper_.momentum(s.swapped);
    s.variance = swapper_.variance(s.swapped);
    for (int id : group.params)
      swapper_.add_gradient(s.swapped, id, name(id), groups_.offset_of(id), real(id));
  } else {
    s.master = slot("master", Category::master, Dtype::fp32, {}, on_host(g));
    s.momentum = slot("momentum", Category::momentum, Dtype::fp32, {}, on_host(g));
    s.variance = slot("variance", Category::variance, Dtype::fp32, {}, on_host(g));
    if (offloads())
      s.grad32 = slot("grad_fp32", Category::grad, Dtype::fp32, {}, on_host(g), pins());
  }
  for (int id : group.params) {
    const FlatParam alone{id, 0};
    for (auto [state, at] :
         {std::pair{State::param, s.param}, std::pair{State::master, s.master},
          std::pair{State::momentum, s.momentum}, std::pair{State::variance, s.variance}})
      if (at != no_slot)
        place_state(p_, state, at, groups_.offset_of(id), {&alone, 1}, shard(id) * p_.rank,
                    shard(id));
  }
  if (flat_[g]) acquire_zeroed(w_, s.param);
}

void ShardedParams::begin_param_files() {
  for (int slot : rests_) w_.acquire(slot);
  std::vector<std::int64_t> largest;  // shards of the sub-group that needs most to be written back
  if (std::find(flat_.begin(), flat_.end(), false) != flat_.end()) {
    const auto& list = groups_.groups();
    const auto most =
        std::max_element(list.begin(), list.end(),
                         [](const SubGroup& a, const SubGroup& b) { return a.elems < b.elems; });
    for (int id : most->params) largest.push_back(shard(id));
  }
  param_swapper_.begin(largest);
}

Operand ShardedParams::own_shard(int id, bool reads, bool writes) const {
  const GroupSlots& s = slots_[groups_.group_of(id)];
  if (s.param != no_slot) return w_.part(s.param, groups_.offset_of(id), shard(id), reads, writes);
  if (own_slots_[id] != no_slot) return w_.part(own_slots_[id], 0, shard(id), reads, writes);
  Operand there = param_swapper_.shard(id, stand_.buffered);
  there.reads = reads, there.writes = writes;
  return there;
}

void ShardedParams::build_param(int id, bool dropped) {
  const int full = gathered_slot(id);
  w_.acquire(full);
  w_.compute(Kernel::init_param, {write_part(full, 0, elems(id))}, {&id, 1});
  broadcast_bytes(read_part(full, 0, elems(id)), id);
  const bool file = param_swapper_.is_file(id);
  if (file && dropped) param_swapper_.take_buffer(id, stand_.buffered);
  if (real(id) > 0 && (!file || dropped)) {
    Operand into = own_shard(id, false, true);
    into.elems = real(id);
    const Operand own = read_part(full, shard(id) * p_.rank, real(id));
    if (params_on_host())
      w_.copy(own, into);
    else
      w_.compute(Kernel::convert, {into, own});
  }
  if (file && dropped) param_swapper_.write_first(id, stand_.buffered);
  stand_.where[id] = read_part(full, 0, elems(id));
  if (dropped) keep_secondary(id);
  w_.release(full);
}

void ShardedParams::master_from_param(std::size_t g, Operand master) {
  const GroupSlots& s = slots_[g];
  if (s.param != no_slot) return convert_between(w_.read(s.param), master, suffix(g));
  for (int id : groups_.groups()[g].params) {
    param_swapper_.bring_in(id, stand_.buffered);
    convert_between(own_shard(id, true, false), part_of(master, id), "." + name(id));
    stand_.buffered.erase(id);
  }
}

void ShardedParams::param_from_master(std::size_t g, Operand master) {
  const GroupSlots& s = slots_[g];
  if (s.param != no_slot) return convert_between(master, w_.write(s.param), suffix(g));
  for (int id : groups_.groups()[g].params) {
    const Operand into =
        param_swapper_.is_file(id) ? param_swapper_.place_to_write(id) : own_shard(id, false, true);
    convert_between(part_of(master, id), into, "." + name(id));
  }
  param_swapper_.write_back();
}

Operand ShardedParams::part_of(Operand master, int id) const {
  master.offset += groups_.offset_of(id);
  master.elems = shard(id);
  return master;
}

// torch changes types on the host's side of the link, in pageable memory: what crosses has the
// device's type.
void ShardedParams::convert_between(Operand from, Operand to, const std::string& what) {
  from.reads = true, from.writes = false;
  to.reads = false, to.writes = true;
  const Slot &source = w_[from.slot], &destination = w_[to.slot];
  const bool crosses = source.tier != destination.tier;
  if (!crosses) {
    w_.compute(Kernel::convert, {to, from});
  } else if (source.dtype == destination.dtype) {
    w_.copy(from, to);
  } else {
    const bool down = destination.tier == Tier::host;
    const Dtype dtype = down ? source.dtype : destination.dtype;
    const auto [it, fresh] = transit_of_.try_emplace(what, no_slot);
    if (fresh) it->second = host_slot("transit" + what, Category::staging, dtype, from.elems);
    const int transit = it->second;
    w_.acquire(transit);
    if (down) {
      w_.copy(from, w_.write(transit));
      w_.compute(Kernel::convert, {to, w_.read(transit)});
    } else {
      w_.compute(Kernel::convert, {w_.write(transit), from});
      w_.copy(w_.read(transit), to);
    }
    w_.release(transit);
  }
}

}  // namespace shardmark
