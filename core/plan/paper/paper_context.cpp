// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include <core/exact_sum.hpp>
#include <core/plan/paper/paper_context.hpp>

namespace shardmark {
namespace {

ShardGroups partition_states(Program& program, const Deck& deck) {
  const ShardGroups groups = add_shard_groups(program, deck);
  program.partition = build_partition(program.model, program.shard_ranks, program.stage);
  return groups;
}

PaperSlots declare_slots(PlanWriter& w, const Program& p, Optimizer optimizer) {
  PaperSlots slots;
  slots.units.resize(p.model.units.size());
  const Dtype model = p.precision.model, accum = p.precision.grad_accum;
  for (std::size_t u = 0; u < p.model.units.size(); ++u) {
    const UnitPartition& part = p.partition.units[u];
    auto slot = [&](const std::string& prefix, Category c, Dtype dtype, std::int64_t elems) {
      return w.slot(prefix + p.model.units[u].name, c, dtype, elems);
    };
    UnitSlots& s = slots.units[u];
    s.param = slot("param.", Category::param, model, p.stage < 3 ? part.padded : part.shard);
    s.states = StateSlots(
        optimizer,
        [&](std::string_view name, Category c) {
          return slot(std::string(name) + ".", c, Dtype::fp32, part.shard);
        },
        model == Dtype::fp32 ? s.param : no_slot);
    s.grad = slot("grad.", Category::grad, accum, p.stage < 2 ? part.padded : part.shard);
    if (p.stage >= 2 || accum != model)
      s.bucket = slot("bucket.", Category::bucket, model, part.padded);
    if (p.stage >= 2 && (p.batch.accumulation > 1 || accum != model))
      s.part = slot("part.", Category::bucket, model, part.shard);
    if (p.stage == 3) s.gathered = slot("gathered.", Category::gathered, model, part.padded);
  }
  slots.sum = p.reductions == Reductions::ordered
                  ? w.slot("norm_limbs", Category::workspace, Dtype::int64, exact_sum_limbs)
                  : w.slot("norm_sum", Category::workspace, Dtype::fp64, 1);
  slots.clip = w.slot("clip", Category::workspace, Dtype::fp64, 2);
  if (p.precision.check_overflow)
    slots.overflow = w.slot("overflow", Category::workspace, Dtype::uint8, 1);
  return slots;
}

void declare_staging(StagedCollectives& collectives, const PlanWriter& w, const Program& p,
                     const ShardGroups& groups, const PaperSlots& slots) {
  for (const UnitPartition& u : p.partition.units) {
    if (p.stage == 0) collectives.need(0, Op::all_reduce, p.precision.model, u.padded);
    if (groups.replicas != no_group)
      collectives.need(groups.replicas, Op::all_reduce, p.precision.model, u.shard);
    if (p.stage == 0 || groups.shard == no_group) continue;
    collectives.need(groups.shard, Op::reduce_scatter, p.precision.model, u.padded);
    collectives.need(groups.shard, Op::all_gather, p.precision.model, u.padded);
  }
  if (p.stage > 0 && groups.shard != no_group)
    collectives.need(groups.shard, Op::all_reduce, w[slots.sum].dtype, w[slots.sum].elems);
  collectives.declare();
}

}  // namespace

PaperContext::PaperContext(Program& p, const Deck& deck, const Profile& machine)
    : ScheduleContext(p, machine),
      optimizer(deck.zero.optimizer.type),
      groups(partition_states(p, deck)),
      collectives(writer, p, machine),
      slots(declare_slots(writer, p, optimizer)) {
  declare_staging(collectives, writer, p, groups, slots);
}

std::vector<int> PaperContext::params_of(int u) const {
  std::vector<int> ids(unit(u).param_count);
  std::iota(ids.begin(), ids.end(), unit(u).first_param);
  return ids;
}

Operand PaperContext::tensor(int slot, int param, bool reads, bool writes) const {
  const Param& p = program.model.params[param];
  return {slot, writes, reads, p.first_elem - unit(p.unit).first_elem, p.elems};
}

Operand PaperContext::full_param(int id) const {
  const UnitSlots& s = slots_of(program.model.params[id].unit);
  return tensor(stage() == 3 ? s.gathered : s.param, id, true, false);
}

Event& PaperContext::collective(Op op, Reduction reduction, Operand send, Operand receive, int u,
                                std::span<const int> params, int group) {
  Event& e = collectives.issue(op, reduction, send, receive, params, -1, group);
  e.unit = u;
  return e;
}

}  // namespace shardmark
