// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/core.h>

#include <core/error.hpp>
#include <core/plan/write/rank_groups.hpp>

namespace shardmark {
namespace {

int add(Program& program, std::string name, std::vector<int> ranks) {
  program.groups.push_back({std::move(name), std::move(ranks)});
  return static_cast<int>(program.groups.size()) - 1;
}

void require_blocks(const Deck& deck, std::string_view key, std::int64_t size, int world) {
  if (size <= world && world % size == 0) return;
  throw DeckError(
      fmt::format("{}: {} = {}: must divide the number of ranks, {}", deck.path, key, size, world));
}

void require_mesh(const Deck& deck, int world) {
  const TorchSpec& t = deck.torch;
  if (t.mesh_shard > 0 && (world % t.mesh_shard != 0 || t.mesh_replicate != world / t.mesh_shard))
    throw DeckError(fmt::format("{}: torch.mesh = [{}, {}]: must have as many ranks as the run, {}",
                                deck.path, t.mesh_replicate, t.mesh_shard, world));
  const std::int64_t shard = t.mesh_shard > 0 ? t.mesh_shard : world;
  if (t.reshard_ranks > 0 && shard % t.reshard_ranks != 0)
    throw DeckError(fmt::format(
        "{}: torch.reshard_after_forward = {}: must divide the ranks that share the parameters, {}",
        deck.path, t.reshard_ranks, shard));
}

}  // namespace

void require_groups(const Deck& deck, int all_ranks) {
  int left = all_ranks;
  for (const MeshAxis& axis : deck.zero.parallel.axes()) {
    require_blocks(deck, axis.key, axis.ranks, axis.of_world ? all_ranks : left);
    if (!axis.of_world) left /= static_cast<int>(axis.ranks);
  }
  const int world = Mesh(all_ranks, 0, deck.zero.parallel).partition_ranks();
  if (deck.run.shard_size > 0 && deck.zero.stage > 0)
    require_blocks(deck, "run.shard_size", deck.run.shard_size, world);
  if (traits(deck.run.schedule).follows_torch) require_mesh(deck, world);
  if (deck.zero.stage == 3 && traits(deck.run.schedule).follows_deepspeed)
    require_blocks(deck, "deepspeed.zero_optimization.zero_hpz_partition_size",
                   std::min<std::int64_t>(deck.zero.knobs.hpz_partition_size, world), world);
}

void add_mesh(Program& program) {
  const Mesh& mesh = program.mesh;
  program.groups.push_back({"world", {}});
  if (mesh.tensor_ranks() > 1) {
    program.partition_group = add(program, "data", mesh.partition_group());
    program.tensor_group = add(program, "tensor", mesh.tensor_group());
  }
  if (mesh.sequence_ranks() > 1)
    program.sequence_group = add(program, "sequence", mesh.sequence_group());
  if (mesh.expert_ranks() > 1) {
    program.expert_group = add(program, "expert", mesh.expert_group());
    program.same_experts_group = add(program, "expert_data", mesh.same_experts_group());
  }
  // At stage 0 DeepSpeed takes the ranks that divide experts, or samples, for those that divide
  // layers.
  const bool all = program.stage == 0;
  for (const int group :
       {all ? program.expert_group : -1, program.tensor_group, all ? program.sequence_group : -1})
    if (group >= 0) program.norm_groups.push_back(group);
  program.counts_whole = mesh.tensor_rank() == 0 && !(all && mesh.sequence_rank() > 0);
}

int add_block(Program& program, std::string name, int size) {
  return add(program, std::move(name), program.mesh.block(size));
}

int add_stride(Program& program, std::string name, int size) {
  return add(program, std::move(name), program.mesh.stride(size));
}

ShardGroups add_shard_groups(Program& program, const Deck& deck) {
  const std::int64_t size = deck.run.shard_size;
  if (size == 0 || program.stage == 0) return {};
  program.shard_ranks = static_cast<int>(size);
  if (size == program.partition_ranks()) return {};
  if (size == 1) return {no_group, 0};
  ShardGroups groups;
  groups.shard = add_block(program, "shard", program.shard_ranks);
  groups.replicas = add_stride(program, "replicas", program.shard_ranks);
  return groups;
}

}  // namespace shardmark
