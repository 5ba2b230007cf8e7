// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/core.h>

#include <core/plan/deck/checked.hpp>
#include <core/plan/kernels.hpp>
#include <core/plan/model/transformer_sizes.hpp>
#include <core/plan/plan.hpp>
#include <core/text.hpp>

namespace shardmark {

std::int64_t alloc_bytes(const Slot& slot) {
  return checked_mul(slot.elems, dtype_bytes(slot.dtype), slot.name);
}

bool Program::has_files() const {
  return std::ranges::any_of(slots, [](const Slot& s) { return s.tier == Tier::nvme; });
}

const Segment* Program::find(std::string_view name) const {
  const auto it = std::ranges::find(segments, name, &Segment::name);
  return it == segments.end() ? nullptr : &*it;
}

std::int64_t Program::ranks_here(int group, std::int64_t ranks_per_node) const {
  const std::vector<int>& ranks = groups[group].ranks;
  if (ranks.empty()) return std::min<std::int64_t>(world, ranks_per_node);
  return std::ranges::count_if(ranks,
                               [&](int r) { return r / ranks_per_node == rank / ranks_per_node; });
}

std::string describe_ranks(const Group& group) {
  constexpr std::size_t most = 16;
  const auto& ranks = group.ranks;
  if (ranks.size() <= most) return fmt::format("ranks {}", join(ranks, ", "));
  return fmt::format("{} ranks, {}, {}, {} ... {}", ranks.size(), ranks[0], ranks[1], ranks[2],
                     ranks.back());
}

// An update reads and writes its moments; the operands that follow them it only reads or only
// writes.
UpdateOperands update_operands(const Program& program, const Event& event) {
  const auto operands = program.operands_of(event);
  UpdateOperands found;
  std::size_t i = operand::upd_moments;
  for (; i < operands.size() && operands[i].reads && operands[i].writes; ++i) ++found.moments;
  if (i < operands.size() && operands[i].reads) found.clip = static_cast<int>(i++);
  if (i < operands.size()) found.param = static_cast<int>(i);
  return found;
}

bool sums_updates(const Program& program, const Event& event, int sum) {
  return event.params.count > 0 &&
         program.model.params[program.param_ids[event.params.first + sum]].hidden_matrix;
}

std::vector<SegmentRun> runs_of(const Step& step, bool skipped) {
  std::vector<SegmentRun> order = step.micros.runs();
  order.push_back({{step.boundary}, 1});
  order.push_back({{skipped ? step.skip : step.update}, 1});
  return order;
}

std::vector<int> step_path(const Program& program, bool skipped) {
  std::vector<int> path{0};
  while (true) {
    const Step& step = program.steps[path.back()];
    const int next = skipped ? step.after_skip : step.after_update;
    if (std::ranges::find(path, next) != path.end()) return path;
    path.push_back(next);
  }
}

TransformerDims transformer_dims(const Program& p) {
  return transformer_dims(p.model.spec, p.batch.micro, p.precision.computes_in());
}

}  // namespace shardmark
