// SPDX-License-Identifier: Apache-2.0
#include <core/exact_sum.hpp>
#include <core/plan/paper/paper_slots.hpp>

namespace shardmark {
namespace {

void declare_states(PlanWriter& w, const Program& p, Optimizer optimizer, PaperSlots& slots) {
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

PaperSlots declare_paper_slots(PlanWriter& writer, const Program& program, Optimizer optimizer,
                               StagedCollectives& collectives, const ShardGroups& groups) {
  PaperSlots slots;
  slots.units.resize(program.model.units.size());
  declare_states(writer, program, optimizer, slots);
  declare_staging(collectives, writer, program, groups, slots);
  return slots;
}

}  // namespace shardmark
