// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/core.h>

#include <core/plan/interpret/check_gradients.hpp>
#include <core/plan/kernels.hpp>

namespace shardmark {
namespace {

// Sums over a group of what an all_to_all of that group exchanged, which two kernels make.
bool sums_parts(const Event& e) {
  return e.op == Op::compute && (e.kernel == Kernel::reduce_int4 || e.kernel == Kernel::sum_parts);
}

bool reduces(const Event& e) {
  return is_reduction(e.op) || sums_parts(e);
}

}  // namespace

GradientCheck::GradientCheck(const Program& program, std::function<void(std::string)> report)
    : p_(program), report_(std::move(report)) {}

// The groups that reduce gradients: the world alone, or two groups that span it. Beside two groups
// the world may reduce some gradients at once.
GradientCheck::Levels GradientCheck::find_levels() const {
  Levels found = 0;
  for (const Segment& s : p_.segments)
    for (const Event& e : s.events)
      if (reduces(e) && e.params.count > 0 && e.group >= 0 && e.group < max_groups &&
          e.group != p_.same_experts_group)
        found |= 1U << static_cast<unsigned>(e.group);
  if (found > 1) found &= ~1U;
  if (found != 0) return found;
  return p_.partition_ranks() == 1
             ? 0
             : 1U << p_.partition_group;  // PyTorch's FSDP sends nothing if there is one rank
}

template<class Each>
void GradientCheck::each_level(Each each, Levels levels) {
  for (unsigned g = 0; g < max_groups; ++g)
    if (((levels_ | of_experts_) & levels & 1U << g) != 0) each(lacking_[g]);
}

void GradientCheck::start() {
  levels_ = find_levels();
  of_experts_ = p_.same_experts_group < 0 ? 0 : 1U << static_cast<unsigned>(p_.same_experts_group);
  std::int64_t ranks = 1;
  for (int g = 0; g < static_cast<int>(p_.groups.size()) && g < max_groups; ++g)
    if ((levels_ >> static_cast<unsigned>(g) & 1U) != 0) ranks *= p_.size_of(g);
  if (ranks != p_.partition_ranks())
    report_(fmt::format("the groups that reduce gradients span {} ranks of {}", ranks,
                        p_.partition_ranks()));
  pending_.assign(p_.model.params.size(), {});
  for (auto& slots : lacking_) slots.assign(p_.slots.size(), {});
  exchanged_.assign(p_.slots.size(), -1);
}

void GradientCheck::drop() {
  pending_.assign(pending_.size(), {});
}

void GradientCheck::follow(const Event& e) {
  follow_params(e);
  follow_values(e);
}

void GradientCheck::follow_params(const Event& e) {
  const bool makes = e.kernel == Kernel::backward;
  const bool applies = is_update(e.kernel);
  const bool sums = reduces(e);
  if (!makes && !applies && !sums) return;
  const Levels level = e.group == 0 ? levels_ : 1U << static_cast<unsigned>(e.group);
  for (int i = 0; i < e.params.count; ++i) {
    const std::int32_t id = p_.param_ids[e.params.first + i];
    if (!p_.model.params[id].trained()) continue;  // its gradient is always zero
    Pending& g = pending_[id];
    const std::string& param = p_.model.params[id].name;
    if (sums && (g.missing & level) == 0)
      report_(param + " is reduced, but nothing new was added to its gradient");
    if (applies && (g.missing != 0 || !g.reduced))
      report_(param + " is applied before its gradient is reduced");
    const Levels needed = levels_of(id);
    if (makes && g.missing != 0 && g.missing != needed && !p_.sums_partly_reduced)
      report_(param + " has a new gradient while the last one is reduced in part");
    if (makes) g.missing = needed;
    if (makes && needed == 0) g.reduced = true;
    if (sums) g.missing &= ~level;
    if (sums && g.missing == 0) g.reduced = true;
    if (applies) g = {};
  }
}

// Keeps the ranges that lack the reduction of a group. Copies and sums pass this on, element by
// element, and so does the reduction of the other level. A reduction of the world counts for both.
void GradientCheck::follow_values(const Event& e) {
  const auto operands = p_.operands_of(e);
  if (e.op == Op::acquire || e.op == Op::release)
    return each_level([&](auto& slots) { slots[e.slot].clear(); });
  if (is_reduction(e.op) && operands.size() >= 2) return reduce_values(e, operands[0], operands[1]);
  if (e.op == Op::all_to_all && operands.size() >= 2) return exchange_values(e);
  if (e.op == Op::copy && operands.size() == 2)
    return each_level([&](auto& slots) { copy_values(slots, operands[1], operands[0], false); });
  switch (e.kernel) {
    case Kernel::backward: return make_values(e);
    case Kernel::zero: {
      const Operand& o = operands[0];
      return each_level([&](auto& slots) { slots[o.slot].remove(o.offset, o.offset + o.elems); });
    }
    case Kernel::reduce_int4: return sum_values(e, operands[2]);
    case Kernel::sum_parts: return sum_values(e, operands[1]);
    case Kernel::quantize_int4:
      return each_level([&](auto& slots) { copy_values(slots, operands[0], operands[2], false); });
    case Kernel::dequantize_int4:
      exchanged_[operands[0].slot] = exchanged_[operands[1].slot];
      [[fallthrough]];
    case Kernel::convert:
    case Kernel::accumulate:
    case Kernel::interleave:
      return each_level([&](auto& slots) {
        copy_values(slots, operands[0], operands[1],
                    e.kernel == Kernel::accumulate || e.kernel == Kernel::interleave);
      });
    default:
      if (is_update(e.kernel)) require_reduced(e);
      return;
  }
}

// The gradients come after the parameters.
void GradientCheck::make_values(const Event& e) {
  const int params = e.params.count;
  for (int i = 0; i < e.operands.count; ++i) {
    const Operand& o = p_.operands_of(e)[static_cast<std::size_t>(i)];
    if (!o.writes) continue;
    const bool gradient = i >= params && i < 2 * params;
    const Levels levels = gradient ? levels_of(p_.param_ids[e.params.first + i - params]) : ~0U;
    each_level([&](auto& slots) { slots[o.slot].add(o.offset, o.offset + o.elems); }, levels);
  }
}

// The ranks of the group hold parts of each other, which are not added up yet.
void GradientCheck::exchange_values(const Event& e) {
  const Operand &from = p_.operands_of(e)[0], &into = p_.operands_of(e)[1];
  exchanged_[into.slot] = e.group;
  each_level([&](auto& slots) { copy_values(slots, into, from, false); });
}

void GradientCheck::sum_values(const Event& e, const Operand& parts) {
  if (exchanged_[parts.slot] != e.group)
    report_(fmt::format("{} adds up {}, which no all_to_all of group {} delivered",
                        to_string(e.kernel), p_.slots[parts.slot].name, p_.groups[e.group].name));
  const Operand& sum = p_.operands_of(e)[0];
  exchanged_[sum.slot] = -1;
  reduce_values(e, parts, sum);
}

void GradientCheck::reduce_values(const Event& e, const Operand& from, const Operand& into) {
  for (int g = 0; g < max_groups; ++g) {
    auto& slots = lacking_[static_cast<std::size_t>(g)];
    if (e.group == g || (e.group == 0 && g != p_.same_experts_group))
      slots[into.slot].remove(into.offset, into.offset + into.elems);
    else
      copy_values(slots, into, from, false);
  }
}

void GradientCheck::copy_values(std::vector<Intervals>& slots, const Operand& into,
                                const Operand& from, bool adds) {
  const Intervals source = slots[from.slot];  // a copy, since both may be the same slot
  Intervals& to = slots[into.slot];
  if (!adds) to.remove(into.offset, into.offset + into.elems);
  if (into.elems != from.elems) {  // rank-major: scattered over the range
    if (source.touches(from.offset, from.offset + from.elems))
      to.add(into.offset, into.offset + into.elems);
    return;
  }
  const std::int64_t shift = into.offset - from.offset;
  source.for_each_in(
      from.offset, from.offset + from.elems,
      [&](std::int64_t first, std::int64_t end) { to.add(first + shift, end + shift); });
}

void GradientCheck::require_reduced(const Event& e) {
  const Operand& grad = p_.operands_of(e)[operand::upd_grad];
  each_level([&](const auto& slots) {
    if (slots[grad.slot].touches(grad.offset, grad.offset + grad.elems))
      report_(fmt::format("{}[{}, +{}] is applied, but holds gradients that no reduction delivered",
                          p_.slots[grad.slot].name, grad.offset, grad.elems));
  });
}

void GradientCheck::at_exit(Gradients declared) const {
  for (std::size_t id = 0; id < pending_.size(); ++id) {
    if (!p_.model.params[id].trained()) continue;
    const Pending& g = pending_[id];
    const Gradients is = g.missing != 0 ? Gradients::accumulated
                         : g.reduced    ? Gradients::reduced
                                        : Gradients::none;
    if (is != declared)
      return report_(fmt::format("exit declares gradients {}, that of {} is {}",
                                 to_string(declared), p_.model.params[id].name, to_string(is)));
  }
}

}  // namespace shardmark
