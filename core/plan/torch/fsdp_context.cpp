// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <fmt/core.h>

#include <core/error.hpp>
#include <core/plan/deck/checked.hpp>
#include <core/plan/torch/fsdp_context.hpp>

namespace shardmark {

// Source: torch 2.15, _fsdp_collectives.py, _get_gradient_divide_factors.
GradientDivision gradient_division(const TorchSpec& spec, Dtype dtype, int shard_ranks,
                                   int replicas) {
  const int ranks = shard_ranks * replicas;
  const bool may_overflow = dtype == Dtype::fp16;
  const auto& factor = spec.gradient_divide_factor;
  if (!may_overflow && !spec.force_sum_reduction) {
    if (!factor && ranks == 1) return {1, 1, Reduction::sum, Reduction::sum};
    if (!factor) return {};
    if (*factor == shard_ranks) return {1, 1, Reduction::average, Reduction::sum};
    return {*factor, 1, Reduction::sum, Reduction::sum};  // NCCL's PREMUL_SUM divides first
  }
  const double all = factor.value_or(ranks);
  double before = 1;
  if (may_overflow)
    while (std::fmod(all, before) == 0 && all / before > before) before *= 2;
  return {before, all / before, Reduction::sum, Reduction::sum};
}

FsdpContext::FsdpContext(Program& p, const Deck& deck, const Profile& machine)
    : TorchContext(p, deck, machine),
      clips(deck.zero.gradient_clipping > 0),
      param_dtype(p.precision.computes_in()),
      reduce_dtype(spec.reduce_dtype.value_or(Dtype::fp32)),
      groups(set_up(deck)) {
  declare_slots();
  declare_staging();
}

// Ranks that share a copy are consecutive, as in the last dimension of a mesh.
std::vector<FsdpGroup> FsdpContext::set_up(const Deck& deck) {
  const int size =
      spec.mesh_shard == 0 ? program.partition_ranks() : static_cast<int>(spec.mesh_shard);
  program.shard_ranks = size;
  if (size < program.partition_ranks()) {
    shard_group = size == 1 ? no_group : add_block(program, "shard", size);
    replica_group = size == 1 ? 0 : add_stride(program, "replicas", size);
  }
  reshard_ranks = spec.reshard_ranks == size ? 0 : static_cast<int>(spec.reshard_ranks);
  if (reshard_ranks > 1) reshard_group = add_block(program, "reshard", reshard_ranks);
  std::vector<FsdpGroup> made =
      fsdp_groups(program.model, spec, size, program.partition_rank() % size, deck.path);
  program.sums_partly_reduced = !spec.requires_all_reduce;
  program.partition.shards = size;
  for (const FsdpGroup& g : made)
    program.partition.per_rank = checked_add(program.partition.per_rank, g.row, "partition");
  program.partition.padded = checked_mul(program.partition.per_rank, size, "partition");
  return made;
}

void FsdpContext::declare_slots() {
  const Dtype sums = Dtype::fp32;
  gradients.assign(program.model.params.size(), no_slot);
  kept_gradients = gradients;
  place_of.resize(program.model.params.size());
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (std::size_t i = 0; i < groups[g].params.size(); ++i)
      place_of[groups[g].params[i].id] = {static_cast<int>(g), i};
  const bool keeps = !spec.requires_gradient_sync && program.batch.accumulation > 1;
  for (const FsdpGroup& g : groups) {
    auto slot = [&](std::string_view name, Category category, Dtype dtype, std::int64_t elems,
                    Tier tier) {
      return writer.slot(fmt::format("{}.{}", name, g.name), category, dtype, elems, tier, {},
                         tier == Tier::host && spec.pin_memory);
    };
    FsdpSlots& s = slots.emplace_back();
    s.param = slot("param", Category::param, sums, g.row, state_tier());
    if (g.grad_row > 0) {
      s.states = StateSlots(
          optimizer,
          [&](std::string_view name, Category c) {
            return slot(name, c, Dtype::fp32, g.held_trained, state_tier());
          },
          s.param);
      s.grad = slot("grad", Category::grad, sums, g.grad_row, state_tier());
      const std::int64_t whole = g.grad_row * ranks();
      s.input = slot("reduce_input", Category::bucket, reduce_dtype, whole, Tier::device);
      s.output = slot("reduce_output", Category::bucket, reduce_dtype, g.grad_row, Tier::device);
      if (replicates() && !spec.requires_all_reduce)
        s.partial = slot("partial", Category::bucket, reduce_dtype, g.grad_row, Tier::device);
      if (offloads() && reduce_dtype != sums)
        s.download = slot("download", Category::bucket, sums, g.grad_row, Tier::device);
      if (offloads()) s.landing = slot("landing", Category::bucket, sums, g.grad_row, Tier::host);
    }
    const std::int64_t whole = g.row * ranks();
    if (offloads()) s.upload = slot("upload", Category::staging, sums, g.row, Tier::device);
    if (shares()) s.wire = slot("wire", Category::gathered, param_dtype, whole, Tier::device);
    s.gathered = slot("gathered", Category::gathered, param_dtype, whole, Tier::device);
    if (reshard_ranks > 1)
      s.resharded =
          slot("resharded", Category::gathered, param_dtype, whole / reshard_ranks, Tier::device);
    for (const FsdpParam& p : g.params) {
      if (p.grad < 0) continue;
      const Param& param = program.model.params[p.id];
      gradients[p.id] =
          writer.slot("gradient." + param.name, Category::grad, param_dtype, param.elems);
      const Dtype wide = spec.reduce_dtype.value_or(sums);
      kept_gradients[p.id] = gradients[p.id];
      if (keeps && dtype_bytes(wide) > dtype_bytes(param_dtype))
        kept_gradients[p.id] =
            writer.slot("gradient_sum." + param.name, Category::grad, wide, param.elems);
    }
  }
}

// Groups of several kinds could run at the same time, so each kind would need scratch of its own;
// the reductions among replicas wait for those among shards, and no gather needs scratch.
void FsdpContext::declare_staging() {
  for (const FsdpGroup& g : groups) {
    if (shares())
      collectives.need(shard_group, Op::reduce_scatter, reduce_dtype, g.grad_row * ranks());
    if (replicates()) collectives.need(replica_group, Op::all_reduce, reduce_dtype, g.grad_row);
  }
  if (shares() && clips)
    collectives.need(shard_group, Op::all_reduce, Dtype::fp32,
                     static_cast<std::int64_t>(program.model.params.size()));
  collectives.declare();
}

}  // namespace shardmark
