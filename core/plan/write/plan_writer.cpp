// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <numeric>

#include <core/plan/write/plan_writer.hpp>

namespace shardmark {

int PlanWriter::slot(std::string name, Category category, Dtype dtype, std::int64_t elems,
                     Tier tier, std::string_view kind, bool pinned) {
  program_.slots.push_back({std::move(name), tier, category, dtype, elems, kind, pinned});
  alloc_bytes(program_.slots.back());  // throws if the size leaves 63 bits
  return static_cast<int>(program_.slots.size()) - 1;
}

int PlanWriter::begin(SegmentKind kind, std::string name, Gradients gradients) {
  program_.segments.emplace_back();
  segment_ = &program_.segments.back();
  segment_->kind = kind;
  segment_->name = std::move(name);
  segment_->entry = {{alive_.begin(), alive_.end()}, gradients};
  for (Clock& c : known_) c.fill(-1);
  clock_of_.clear();
  accesses_.assign(program_.slots.size(), {});
  return static_cast<int>(program_.segments.size()) - 1;
}

void PlanWriter::end(Gradients gradients) {
  segment_->exit = {{alive_.begin(), alive_.end()}, gradients};
  segment_ = nullptr;
}

void PlanWriter::order_after(int queue, std::int32_t event, std::vector<std::int32_t>& edges) {
  const int other = queue_of(segment_->events[event]);
  if (other == queue || known_[queue][other] >= event) return;
  edges.push_back(event);
  Clock& mine = known_[queue];
  for (int q = 0; q < queue_count; ++q) mine[q] = std::max(mine[q], clock_of_[event][q]);
  mine[other] = std::max(mine[other], event);
}

Event& PlanWriter::emit(Event event, std::span<const Operand> operands,
                        std::span<const int> params) {
  if (event.group == of_partition) event.group = program_.partition_group;
  if (event.group == of_all) event.group = 0;
  event.phase = phase_;
  event.micro_batch = micro_batch_;
  if (program_.extent == Extent::collectives) {
    if (!is_collective(event.op)) return passed_over_ = event;
    return segment_->events.emplace_back(event);
  }
  const auto me = static_cast<std::int32_t>(segment_->events.size());

  // The newest event comes first, since an order after it often implies the order after earlier
  // ones.
  const int queue = queue_of(event);
  Accesses::Newest before;
  before.fill(-1);
  accesses_.resize(program_.slots.size());  // slots may be declared while a segment is open
  for (const Operand& o : operands) accesses_[o.slot].newest_conflicts(o, queue, before);
  std::ranges::sort(before, std::greater<>());
  std::vector<std::int32_t> edges;
  for (std::int32_t e : before)
    if (e >= 0) order_after(queue, e, edges);
  std::ranges::sort(edges);

  auto append = [](auto& side, const auto& values) {
    const Range r{static_cast<std::int32_t>(side.size()), static_cast<std::int32_t>(values.size())};
    side.insert(side.end(), values.begin(), values.end());
    return r;
  };
  event.operands = append(program_.operands, operands);
  event.params = append(program_.param_ids, params);
  event.after = append(program_.edges, edges);
  segment_->events.push_back(event);
  clock_of_.push_back(known_[queue]);
  known_[queue][queue] = me;

  for (const Operand& o : operands) accesses_[o.slot].add(me, queue, o);
  return segment_->events.back();
}

Event PlanWriter::memory_event(Op op, int slot) const {
  const Slot& s = program_.slots[slot];
  Event e;
  e.op = op;
  e.slot = slot;
  e.tier = s.tier, e.category = s.category, e.dtype = s.dtype, e.elems = s.elems;
  return e;
}

void PlanWriter::acquire(int slot) {
  alive_.insert(slot);
  if (program_.extent == Extent::collectives) return;
  const Event& acquired = emit(memory_event(Op::acquire, slot), {}, {});
  // Its memory may have belonged to another slot until now, so other lanes come after the acquire.
  accesses_[slot].clear();
  accesses_[slot].add(static_cast<std::int32_t>(segment_->events.size()) - 1, queue_of(acquired),
                      write(slot));
}

void PlanWriter::release(int slot) {
  alive_.erase(slot);
  if (program_.extent == Extent::collectives) return;
  const Operand all = write(slot);
  emit(memory_event(Op::release, slot), {&all, 1}, {});
  // The operand only served to find the edges; a release reads and writes nothing.
  Range& operands = segment_->events.back().operands;
  program_.operands.resize(static_cast<std::size_t>(operands.first));
  operands.count = 0;
  accesses_[slot].clear();
}

Event& PlanWriter::compute(Kernel kernel, std::span<const Operand> operands,
                           std::span<const int> params) {
  const Slot& s = program_.slots[operands.front().slot];
  Event e;
  e.op = Op::compute;
  e.kernel = kernel;
  e.tier = s.tier, e.category = s.category, e.dtype = s.dtype, e.elems = operands.front().elems;
  return emit(e, operands, params);
}

Event& PlanWriter::convert(Operand into, Operand from, double divisor) {
  Event& e = compute(Kernel::convert, {into, from});
  e.divisor = divisor;
  return e;
}

Event& PlanWriter::store(Operand into, Operand from, bool adds) {
  return adds ? accumulate(update(into), from) : convert(write(into), from);
}

void PlanWriter::add_to(int slot, Operand from) {
  const bool adds = alive(slot);
  if (!adds) acquire(slot);
  store(write(slot), from, adds);
}

Event& PlanWriter::collective(Op op, Reduction reduction, Dtype dtype, std::int64_t elems,
                              std::span<const Operand> operands, std::span<const int> params,
                              int group, int root) {
  Event e;
  e.op = op;
  e.lane = Lane::comm;
  e.reduction = reduction;
  e.dtype = dtype;
  e.elems = elems;
  e.group = group;
  e.root = root;
  if (!operands.empty()) {
    const Slot& data = program_.slots[operands.front().slot];
    e.tier = data.tier, e.category = data.category;
  }
  return emit(e, operands, params);
}

Event& PlanWriter::collective(Op op, Reduction reduction, Operand send, Operand receive,
                              std::span<const int> params, int group, int root,
                              std::optional<Operand> scratch) {
  std::vector<Operand> operands{read(send), write(receive)};
  if (scratch) operands.push_back(*scratch);
  return collective(op, reduction, program_.slots[send.slot].dtype,
                    std::max(send.elems, receive.elems), operands, params, group, root);
}

Event& PlanWriter::exchange(Operand send, Operand receive, std::span<const std::int64_t> to,
                            std::span<const std::int64_t> from, std::int64_t largest_part,
                            std::span<const int> params, int group) {
  const std::array<Operand, 2> operands{send, receive};
  const auto sum = [](std::span<const std::int64_t> parts) {
    return std::accumulate(parts.begin(), parts.end(), std::int64_t{0});
  };
  Event& e = collective(Op::all_to_all, Reduction::none, program_.slots[send.slot].dtype,
                        std::max(sum(to), sum(from)), operands, params, group);
  std::vector<std::int64_t>& counts = program_.part_counts;
  e.parts = {static_cast<std::int32_t>(counts.size()), static_cast<std::int32_t>(2 * to.size())};
  e.largest_part = largest_part;
  counts.insert(counts.end(), to.begin(), to.end());
  counts.insert(counts.end(), from.begin(), from.end());
  return e;
}

Event& PlanWriter::copy(Operand source, Operand destination) {
  const Slot& s = program_.slots[destination.slot];
  Event e;
  e.op = Op::copy;
  const bool files = s.tier == Tier::nvme || program_.slots[source.slot].tier == Tier::nvme;
  e.lane = files ? Lane::disk : Lane::copy;
  e.tier = s.tier, e.category = s.category, e.dtype = s.dtype, e.elems = destination.elems;
  const std::array<Operand, 2> operands{read(source), write(destination)};
  return emit(e, operands, {});
}

}  // namespace shardmark
