// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <core/error.hpp>
#include <core/plan/work/work.hpp>
#include <io/chakra/trace_writer.hpp>
#include <miniapp/execute/event_name.hpp>
#include <miniapp/measure/timings.hpp>
#include <miniapp/report/chakra_trace.hpp>

namespace shardmark {
namespace {

// When an event had its lane; a start of -1 is unknown.
struct Span {
  std::int64_t begin_ns = -1, duration_ns = 0;
};

chakra::Collective collective_type(Op op) {
  switch (op) {
    case Op::all_gather: return chakra::Collective::all_gather;
    case Op::reduce_scatter: return chakra::Collective::reduce_scatter;
    case Op::reduce: return chakra::Collective::reduce;
    case Op::broadcast: return chakra::Collective::broadcast;
    case Op::all_to_all: return chakra::Collective::all_to_all;
    default: return chakra::Collective::all_reduce;
  }
}

// Bytes that the event's matrix products and its other kernels read and write.
double touched_bytes(const Work& work) {
  double bytes = work.streamed_bytes();
  for (const Product& p : work.products)
    bytes +=
        double(p.batch) * double(p.count) *
        ((double(p.m) * double(p.k) + double(p.k) * double(p.n)) * double(dtype_bytes(p.type)) +
         double(p.m) * double(p.n) * double(dtype_bytes(p.c_type)));
  return bytes;
}

// Groups below the world are numbered so that every rank can tell the number by itself.
int group_number(const Program& p, int group) {
  return 1 + (group - 1) * p.world + p.groups[group].ranks.front();
}

bool is_part_of_world(const Program& p, int group) {
  return group > 0 && !p.groups[group].ranks.empty();
}

/// Appends the events of a step as nodes.
class Graph {
 public:
  Graph(const Program& p, const std::string& deck_name, const char* times)
      : p_(p), writer_(about(p, deck_name, times)) {}

  void begin_segment(int segment) {
    segment_ = &p_.segments[segment];
    done_.assign(segment_->events.size(), {});
    // All lanes are joined at the end of a segment.
    Ids joined;
    for (const Ids& lane : lanes_) joined.insert(lane.begin(), lane.end());
    lanes_.fill(joined);
    held_.fill(0);
    for (const std::int32_t slot : segment_->entry.alive) hold(slot, 1);
  }

  void add(int index, const std::optional<Span>& span) {
    const Event& e = segment_->events[index];
    Ids& lane = lanes_[queue_of(e)];
    Ids& done = done_[index];
    for (std::int32_t i = 0; i < e.after.count; ++i) {
      const auto before = static_cast<std::size_t>(p_.edges[e.after.first + i]);
      lane.insert(done_[before].begin(), done_[before].end());
    }
    if (e.op == Op::acquire || e.op == Op::release) hold(e.slot, e.op == Op::acquire ? 1 : -1);
    if (e.op == Op::acquire || e.op == Op::release || e.op == Op::barrier) {
      done = lane;  // no node: whoever waits for it waits for what its lane waits for
      return;
    }
    chakra::Node node;
    node.id = ++written_;
    node.name = fmt::format("{} {} {}", segment_->name, index, name_of(e));
    node.depends_on.assign(lane.begin(), lane.end());
    describe(e, node);
    node.attributes.string("segment", segment_->name)
        .uint64("event", static_cast<std::uint64_t>(index))
        .string("phase", to_string(e.phase))
        .uint64("device_bytes", static_cast<std::uint64_t>(held_[Tier::device]))
        .uint64("host_bytes", static_cast<std::uint64_t>(held_[Tier::host]));
    if (span) set_time(*span, node);
    writer_.add(node);
    lane = done = {node.id};
  }

  std::string take() && { return std::move(writer_).take(); }

 private:
  using Ids = std::set<std::uint64_t>;

  std::string name_of(const Event& e) const {
    if (!is_collective(e.op) || e.operands.count == 0) return event_name(p_, e);
    const int whole = e.op == Op::all_gather && e.operands.count > 1 ? 1 : 0;
    const Operand& o = p_.operands[e.operands.first + whole];
    return fmt::format("{} {}", to_string(e.op), p_.slots[o.slot].name);
  }

  static chakra::Attributes about(const Program& p, const std::string& deck_name,
                                  const char* times) {
    chakra::Attributes a;
    a.string("deck", deck_name)
        .string("schedule", to_string(p.schedule))
        .int64("stage", p.stage)
        .int64("rank", p.rank)
        .int64("world", p.world)
        .string("times", times);
    return a;
  }

  void hold(std::int32_t slot, int sign) {
    const Slot& s = p_.slots[slot];
    held_[s.tier] += sign * alloc_bytes(s);
  }

  std::int64_t operand_bytes(const Event& e, int operand) const {
    const Operand& o = p_.operands[e.operands.first + operand];
    return o.elems * dtype_bytes(p_.slots[o.slot].dtype);
  }

  // Consumers take the bytes that a rank contributes for an all_gather, and the whole array for the
  // other collectives.
  void describe(const Event& e, chakra::Node& node) const {
    if (is_collective(e.op)) {
      node.type = chakra::NodeType::collective;
      std::int64_t bytes = e.elems * dtype_bytes(e.dtype);
      if (e.op == Op::all_gather) bytes /= p_.size_of(e.group);
      node.attributes.boolean("is_cpu_op", false)
          .int64("comm_type", static_cast<std::int64_t>(collective_type(e.op)))
          .int64("comm_size", bytes);
      if (is_part_of_world(p_, e.group))
        node.attributes.string("pg_name", std::to_string(group_number(p_, e.group)));
      if (e.root >= 0) node.attributes.int64("root", e.root);
      return;
    }
    node.type = chakra::NodeType::compute;
    if (e.op == Op::copy) {  // runs beside the kernels
      node.attributes.boolean("is_cpu_op", true)
          .int64("num_ops", 0)
          .uint64("tensor_size",
                  static_cast<std::uint64_t>(std::max<std::int64_t>(1, operand_bytes(e, 0))));
      return;
    }
    const Work work = work_of(p_, e);
    node.attributes.boolean("is_cpu_op", false)
        .int64("num_ops", std::llround(work.flops()))
        .uint64("tensor_size", static_cast<std::uint64_t>(std::max(1.0, touched_bytes(work))));
  }

  // Durations are whole microseconds in the schema. 0 would mean that nothing is known.
  static void set_time(const Span& span, chakra::Node& node) {
    const auto us = [](std::int64_t ns) {
      return static_cast<std::uint64_t>((std::max<std::int64_t>(0, ns) + 500) / 1000);
    };
    if (span.begin_ns >= 0) node.start_us = us(span.begin_ns);
    node.duration_us = std::max<std::uint64_t>(1, us(span.duration_ns));
    node.attributes.uint64("duration_nanos",
                           static_cast<std::uint64_t>(std::max<std::int64_t>(0, span.duration_ns)));
  }

  const Program& p_;
  chakra::TraceWriter writer_;
  const Segment* segment_ = nullptr;
  std::vector<Ids> done_;               // by event of the segment: the nodes that complete it
  std::array<Ids, queue_count> lanes_;  // what the next node of each lane waits for
  std::uint64_t written_ = 0;
  EnumArray<Tier, std::int64_t> held_{};
};

using SpanOf = std::map<std::pair<int, int>, Span>;

// The steady step as the plan lists it.
std::string steady_trace(const Program& p, const std::string& deck_name, const char* times,
                         const SpanOf& spans) {
  const Step& step = p.steps[step_path(p, false).back()];
  const std::vector<SegmentRun> runs = runs_of(step, false);
  std::int64_t nodes = 0;
  for (const SegmentRun& run : runs)
    for (const int s : run.segments) nodes += run.times * std::int64_t(p.segments[s].events.size());
  if (nodes > most_chakra_nodes)
    throw DeckError(
        fmt::format("a step of this deck has {} events, a trace at most {}: give a smaller "
                    "deepspeed.gradient_accumulation_steps",
                    nodes, most_chakra_nodes));
  Graph graph(p, deck_name, times);
  for (const SegmentRun& run : runs)
    for (std::int64_t t = 0; t < run.times; ++t)
      for (const int s : run.segments) {
        graph.begin_segment(s);
        const auto count = static_cast<int>(p.segments[s].events.size());
        for (int e = 0; e < count; ++e) {
          const auto it = spans.find({s, e});
          graph.add(e, it != spans.end() ? std::optional(it->second) : std::nullopt);
        }
      }
  return std::move(graph).take();
}

// The collectives of a measured step in the order of their issue; the record of each call.
class IssuedCollectives {
 public:
  explicit IssuedCollectives(const StepTrace& trace)
      : trace_(trace), begins_(lane_begins_ns(trace.collectives)) {
    for (std::size_t i = 0; i < trace.collectives.size(); ++i) order_.push_back(i);
    std::ranges::stable_sort(order_, [&](std::size_t a, std::size_t b) {
      return trace.collectives[a].issue_ns < trace.collectives[b].issue_ns;
    });
  }

  /// The span of the first call that fits `e` and was not taken yet.
  std::optional<Span> take(const Event& e) {
    for (auto it = order_.begin(); it != order_.end(); ++it) {
      const CollectiveRecord& r = trace_.collectives[*it];
      if (r.op != e.op || r.group != e.group || r.elems != e.elems) continue;
      const Span span{begins_[*it], r.done_ns - begins_[*it]};
      order_.erase(it);
      return span;
    }
    return std::nullopt;
  }

 private:
  const StepTrace& trace_;
  std::vector<std::int64_t> begins_;
  std::vector<std::size_t> order_;
};

}  // namespace

std::string chakra_trace(const Program& p, const std::string& deck_name) {
  return steady_trace(p, deck_name, "none", {});
}

std::string chakra_trace(const Program& p, const std::string& deck_name, const PricedStep& priced) {
  SpanOf spans;
  for (const PricedEvent& e : priced.events)
    spans[{e.segment, e.event}] = {-1, std::llround((e.end_s - e.begin_s) * 1e9)};
  return steady_trace(p, deck_name, "predicted", spans);
}

std::string chakra_trace(const Program& p, const std::string& deck_name,
                         const StepTrace& measured) {
  Graph graph(p, deck_name, "measured");
  IssuedCollectives collectives(measured);
  auto copy = measured.copies.begin();
  const std::int64_t zero = measured.events.empty() ? 0 : measured.events.front().begin_ns;
  for (std::size_t i = 0; i < measured.events.size(); ++i) {
    const TracedEvent& t = measured.events[i];
    if (t.event < 0) continue;
    if (t.event == 0) graph.begin_segment(t.segment);
    const Event& e = p.segments[t.segment].events[t.event];
    std::optional<Span> span;
    if (is_collective(e.op))
      span = collectives.take(e);
    else if (copy != measured.copies.end() && copy->event == i) {
      span = Span{copy->begin_ns, copy->end_ns - copy->begin_ns};
      ++copy;
    } else
      span = Span{t.begin_ns + t.exposed_ns, t.end_ns - t.begin_ns - t.exposed_ns};
    if (span) span->begin_ns = std::max<std::int64_t>(0, span->begin_ns - zero);
    graph.add(t.event, span);
  }
  return std::move(graph).take();
}

nlohmann::ordered_json chakra_groups(const Program& p) {
  auto groups = nlohmann::ordered_json::object();
  for (int g = 1; g < static_cast<int>(p.groups.size()); ++g)
    if (is_part_of_world(p, g)) groups[std::to_string(group_number(p, g))] = p.groups[g].ranks;
  return groups;
}

std::string chakra_groups_file(const std::string& name) {
  return name.substr(0, name.rfind('.')) + ".groups.json";
}

}  // namespace shardmark
