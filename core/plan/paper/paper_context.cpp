// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include <core/plan/paper/paper_context.hpp>

namespace shardmark {
namespace {

ShardGroups partition_states(Program& program, const Deck& deck) {
  const ShardGroups groups = add_shard_groups(program, deck);
  program.partition = build_partition(program.model, program.shard_ranks, program.stage);
  return groups;
}

}  // namespace

PaperContext::PaperContext(Program& p, const Deck& deck, const Profile& machine)
    : program(p),
      optimizer(deck.zero.optimizer.type),
      writer(p),
      compute(p, writer, machine),
      groups(partition_states(p, deck)),
      collectives(writer, p, machine),
      slots(declare_paper_slots(writer, p, optimizer, collectives, groups)) {}

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
