// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>

#include <fmt/core.h>

#include <core/error.hpp>
#include <core/plan/accesses.hpp>
#include <core/plan/interpret/check.hpp>
#include <core/plan/interpret/check_gradients.hpp>
#include <core/plan/interpret/intervals.hpp>

namespace shardmark {
namespace {

// Walks the segments as the driver would and keeps the state that a run would have: live slots,
// defined ranges, pending gradients and, within a segment, which events are known to be complete.
class Checker {
 public:
  explicit Checker(const Program& program)
      : p_(program),
        gradients_(program, [this](std::string what) { report(Rule::gradient, std::move(what)); }) {
  }

  // Takes every junction that the driver can take: all steps done, all skipped, and both in turn,
  // and a run that is resumed.
  std::vector<Violation> run() {
    walk([](int) { return false; });
    if (p_.resumed_step != 0) walk([](int) { return false; }, p_.resumed_step);
    const bool may_skip = std::ranges::any_of(p_.steps, [](const Step& s) { return s.skip >= 0; });
    if (may_skip) {
      walk([](int) { return true; });
      walk([](int i) { return i % 2 == 0; });
      walk([](int i) { return i % 3 != 0; });
    }
    return std::move(violations_);
  }

 private:
  using Clock = std::array<std::int32_t, queue_count>;

  template<class Skipped>
  void walk(Skipped skipped, int first_step = 0) {
    segment_ = nullptr;
    defined_.assign(p_.slots.size(), {});
    accesses_.assign(p_.slots.size(), {});
    gradients_.start();
    alive_.clear();
    last_gradients_ = Gradients::none;
    if (!walk_index(p_.segments.empty() ? -1 : 0)) return;
    int at = first_step;
    for (int i = 0; i < static_cast<int>(p_.steps.size()) + 3; ++i) {
      const Step& step = p_.steps[at];
      const bool skip = step.skip >= 0 && skipped(i);
      for (const SegmentRun& run : runs_of(step, skip))
        for (int t = 0; t < std::min<std::int64_t>(run.times, 2);
             ++t)  // a third time adds no junction
          for (int segment : run.segments)
            if (!walk_index(segment)) return;
      at = skip ? step.after_skip : step.after_update;
    }
  }

  // Returns false if the walk cannot continue.
  bool walk_index(int segment) {
    if (segment < 0 || segment >= static_cast<int>(p_.segments.size())) {
      report(Rule::junction,
             fmt::format("the driver needs segment {}, which the program does not have", segment));
      return false;
    }
    walk_segment(p_.segments[segment]);
    return violations_.size() <= 20;  // the first ones are enough
  }

  void report(Rule rule, std::string what) {
    const std::string where =
        segment_ == nullptr ? "program" : fmt::format("{}, event {}", segment_->name, now_);
    for (const Violation& v : violations_)
      if (v.rule == rule && v.where == where && v.what == what)
        return;  // the second step repeats the first
    violations_.push_back({rule, where, std::move(what)});
  }
  const std::string& name(std::int32_t slot) const { return p_.slots[slot].name; }

  std::string names(const std::vector<std::int32_t>& have,
                    const std::set<std::int32_t>& want) const {
    std::string text;
    for (std::int32_t s : have)
      if (!want.contains(s)) text += " " + name(s);
    return text;
  }

  void compare_alive(Rule rule, const EndState& declared, std::string_view end) {
    const std::vector<std::int32_t> alive(alive_.begin(), alive_.end());
    if (alive == declared.alive) return;
    const std::set<std::int32_t> want(declared.alive.begin(), declared.alive.end());
    report(rule, fmt::format("alive but not declared at {}:{}; declared but not alive:{}", end,
                             names(alive, want), names(declared.alive, alive_)));
  }

  void walk_segment(const Segment& segment) {
    const Gradients before = last_gradients_;
    segment_ = &segment;
    now_ = 0;
    compare_alive(Rule::junction, segment.entry, "entry");
    if (segment.entry.gradients != before)
      report(Rule::junction,
             fmt::format("entry declares gradients {}, the segment before leaves {}",
                         to_string(segment.entry.gradients), to_string(before)));
    for (Clock& c : known_) c.fill(-1);
    clock_of_.assign(segment.events.size(), known_[0]);
    for (auto& list : accesses_) list.clear();
    for (now_ = 0; now_ < static_cast<std::int32_t>(segment.events.size()); ++now_)
      if (has_its_group(segment.events[now_])) walk_event(segment.events[now_]);
    compare_alive(Rule::not_released, segment.exit, "exit");
    if (segment.kind == SegmentKind::skip) gradients_.drop();
    gradients_.at_exit(segment.exit.gradients);
    last_gradients_ = segment.exit.gradients;
  }

  void walk_event(const Event& e) {
    follow_edges(e);
    if (e.op == Op::acquire) acquire(e);
    for (const Operand& o : p_.operands_of(e)) use(e, o);
    if (e.op == Op::release) release(e);
    if (is_collective(e.op)) check_collective(e);
    check_tiers(e);
    check_divisor(e);
    gradients_.follow(e);
    // The writes count only after all reads of the event were judged.
    for (const Operand& o : p_.operands_of(e))
      if (o.writes && o.slot >= 0) defined_[o.slot].add(o.offset, o.offset + o.elems);
    const int queue = queue_of(e);
    clock_of_[now_] = known_[queue];
    known_[queue][queue] = now_;
  }

  void follow_edges(const Event& e) {
    Clock& mine = known_[queue_of(e)];
    for (int i = 0; i < e.after.count; ++i) {
      const std::int32_t before = p_.edges[e.after.first + i];
      if (before < 0 || before >= now_) {
        report(Rule::edge, fmt::format("after {}: not an earlier event", before));
        continue;
      }
      if (!group_exists(segment_->events[before])) continue;  // reported already
      for (int q = 0; q < queue_count; ++q) mine[q] = std::max(mine[q], clock_of_[before][q]);
      const int other = queue_of(segment_->events[before]);
      mine[other] = std::max(mine[other], before);
    }
  }

  bool ordered(std::int32_t before, const Event& e) const {
    return known_[queue_of(e)][queue_of(segment_->events[before])] >= before;
  }

  bool group_exists(const Event& e) const {
    const auto groups = std::min<std::size_t>(p_.groups.size(), max_groups);
    return !is_collective(e.op) || (e.group >= 0 && e.group < static_cast<int>(groups));
  }

  // Nothing else about a collective can be judged if its group does not exist.
  bool has_its_group(const Event& e) {
    if (group_exists(e)) return true;
    report(Rule::collective, fmt::format("{}: group {} does not exist", to_string(e.op), e.group));
    return false;
  }

  void check_race(const Event& e, const Operand& o) {
    Accesses::Newest before;
    before.fill(-1);
    accesses_[o.slot].newest_conflicts(o, queue_of(e), before);
    for (std::int32_t event : before)
      if (event >= 0 && !ordered(event, e))
        report(Rule::race, fmt::format("{} is in use by event {} on lane {}", name(o.slot), event,
                                       to_string(segment_->events[event].lane)));
  }

  bool exists(const Operand& o) const { return o.slot >= 0 && o.slot < std::ssize(p_.slots); }

  void use(const Event& e, const Operand& o) {
    if (!exists(o)) return report(Rule::bounds, fmt::format("slot {} does not exist", o.slot));
    if (o.offset < 0 || o.elems < 0 || o.offset + o.elems > p_.slots[o.slot].elems)
      return report(Rule::bounds,
                    fmt::format("{}[{}, +{}] reaches beyond its {} elements", name(o.slot),
                                o.offset, o.elems, p_.slots[o.slot].elems));
    if (!alive_.contains(o.slot)) report(Rule::not_alive, name(o.slot) + " is used");
    if (o.reads && !defined_[o.slot].covers(o.offset, o.offset + o.elems))
      report(Rule::undefined_read, fmt::format("{}[{}, +{}] is read before it is written",
                                               name(o.slot), o.offset, o.elems));
    check_race(e, o);
    accesses_[o.slot].add(now_, queue_of(e), o);
  }

  void acquire(const Event& e) {
    if (!alive_.insert(e.slot).second)
      report(Rule::acquired_twice, name(e.slot) + " is alive already");
    defined_[e.slot].clear();
    // Another slot may have used its memory until now, so other lanes must come after the acquire.
    accesses_[e.slot].clear();
    accesses_[e.slot].add(now_, queue_of(e), {e.slot, true, false, 0, p_.slots[e.slot].elems});
  }

  void release(const Event& e) {
    if (alive_.erase(e.slot) == 0) report(Rule::not_alive, name(e.slot) + " is released");
    check_race(e, {e.slot, true, false, 0, p_.slots[e.slot].elems});
    accesses_[e.slot].clear();
    defined_[e.slot].clear();
  }

  // A device's kernels and its network use its own memory only; copies move data between tiers.
  void check_tiers(const Event& e) {
    if (e.op == Op::acquire || e.op == Op::release) return;
    for (const Operand& o : p_.operands_of(e))
      if (!exists(o)) return;  // reported already
    if (e.op == Op::copy) return check_copy(e);
    const Tier tier = is_collective(e.op) ? Tier::device : e.tier;
    for (const Operand& o : p_.operands_of(e))
      if (const Slot& slot = p_.slots[o.slot]; slot.tier != tier)
        report(Rule::tiers, fmt::format("{} is in {} memory, the work is done in the {}'s",
                                        slot.name, to_string(slot.tier), to_string(tier)));
  }

  void check_divisor(const Event& e) {
    const bool divides =
        e.kernel == Kernel::scale || e.kernel == Kernel::convert || e.kernel == Kernel::interleave;
    if (e.divisor == 1 || (divides && e.divisor > 0 && std::isfinite(e.divisor))) return;
    report(Rule::divisor, fmt::format("{} divides by {}", to_string(e.kernel), e.divisor));
  }

  void check_copy(const Event& e) {
    if (e.operands.count != 2)
      return report(Rule::tiers, "a copy needs a source and a destination");
    const Operand &from = p_.operands_of(e)[0], &to = p_.operands_of(e)[1];
    const Slot &source = p_.slots[from.slot], &destination = p_.slots[to.slot];
    if (source.tier == destination.tier)
      report(Rule::tiers, fmt::format("{} is copied to {} within {} memory", source.name,
                                      destination.name, to_string(source.tier)));
    const bool files = source.tier == Tier::nvme || destination.tier == Tier::nvme;
    if (files && source.tier != Tier::host && destination.tier != Tier::host)
      report(Rule::tiers, fmt::format("{} is copied to {}: files are reached from the host only",
                                      source.name, destination.name));
    if (source.dtype != destination.dtype || from.elems != to.elems || from.elems != e.elems ||
        e.dtype != source.dtype)
      report(Rule::tiers,
             fmt::format("a copy of {} {} x {} to {} {} x {}", source.name, to_string(source.dtype),
                         from.elems, destination.name, to_string(destination.dtype), to.elems));
    if (e.lane != (files ? Lane::disk : Lane::copy))
      report(Rule::tiers, fmt::format("a copy on lane {}", to_string(e.lane)));
  }

  void check_collective(const Event& e) {
    auto wrong = [&](const std::string& what) {
      report(Rule::collective, fmt::format("{}: {}", to_string(e.op), what));
    };
    const auto& ranks = p_.groups[e.group].ranks;
    const int size = p_.size_of(e.group);
    if (!ranks.empty() && std::ranges::find(ranks, p_.rank) == ranks.end())
      wrong(fmt::format("rank {} is not in group {}", p_.rank, p_.groups[e.group].name));
    const bool rooted = e.op == Op::reduce || e.op == Op::broadcast;
    if (rooted != (e.root >= 0) || e.root >= size)
      wrong(fmt::format("root {} of a group of {}", e.root, size));
    if (is_reduction(e.op) != (e.reduction != Reduction::none))
      wrong(fmt::format("reduction {}", to_string(e.reduction)));
    if (e.op == Op::barrier) return;
    if (e.operands.count < 2) return wrong("needs a send and a receive range");
    const Operand &send = p_.operands_of(e)[0], &receive = p_.operands_of(e)[1];
    // In elements of the event's type: a byte view has more of them than the slot.
    const auto elems = [&](const Operand& o) {
      return o.elems * dtype_bytes(p_.slots[o.slot].dtype) / dtype_bytes(e.dtype);
    };
    if (e.parts.count > 0) return check_parts(e, elems(send), elems(receive), wrong);
    const std::int64_t sent = elems(send) * (e.op == Op::all_gather ? size : 1);
    const std::int64_t received = elems(receive) * (e.op == Op::reduce_scatter ? size : 1);
    if (sent != e.elems || received != e.elems)
      wrong(fmt::format("sends {} and receives {} where the whole is {} over {} ranks", sent,
                        received, e.elems, size));
  }

  // The parts of an all_to_all, if they differ, make up its buffers. Routed parts fit in them.
  template<class Wrong>
  void check_parts(const Event& e, std::int64_t sent, std::int64_t received, const Wrong& wrong) {
    const int size = p_.size_of(e.group);
    if (e.op != Op::all_to_all || e.parts.count != 2 * size) return wrong("needs no such parts");
    const std::int64_t* counts = p_.part_counts.data() + e.parts.first;
    const std::int64_t to = std::accumulate(counts, counts + size, std::int64_t{0});
    const std::int64_t from = std::accumulate(counts + size, counts + 2 * size, std::int64_t{0});
    const bool fits =
        e.routed == Routed::no ? sent == to && received == from : sent >= to && received >= from;
    if (!fits || e.elems != std::max(to, from) ||
        *std::max_element(counts, counts + 2 * size) > e.largest_part)
      wrong(
          fmt::format("sends {} and receives {} where the parts have {} and {} elements, of "
                      "which {} are counted, and at most {} each",
                      sent, received, to, from, e.elems, e.largest_part));
  }

  const Program& p_;
  std::vector<Violation> violations_;
  const Segment* segment_ = nullptr;
  std::int32_t now_ = 0;
  std::set<std::int32_t> alive_;
  std::vector<Intervals> defined_;          // by slot
  std::vector<Accesses> accesses_;          // by slot, in this segment
  std::array<Clock, queue_count> known_{};  // by queue
  std::vector<Clock> clock_of_;
  GradientCheck gradients_;
  Gradients last_gradients_ = Gradients::none;
};

}  // namespace

std::vector<Violation> check(const Program& program) {
  return Checker(program).run();
}

void require_legal(const std::vector<Violation>& violations) {
  if (violations.empty()) return;
  std::string text = "plan: not legal, a bug in the schedule:";
  for (std::size_t i = 0; i < std::min<std::size_t>(violations.size(), 5); ++i) {
    const Violation& v = violations[i];
    text += fmt::format(" [{}] {}: {};", to_string(v.rule), v.where, v.what);
  }
  throw PlanError(text);
}

}  // namespace shardmark
