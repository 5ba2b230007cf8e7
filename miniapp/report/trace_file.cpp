// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <core/plan/interpret/print.hpp>
#include <miniapp/execute/event_name.hpp>
#include <miniapp/measure/timings.hpp>
#include <miniapp/report/trace_file.hpp>

namespace shardmark {

namespace {

using OrderedJson = nlohmann::ordered_json;

// The lanes of a rank, in the order in which viewers show them: compute, communication (one lane
// per group of ranks), copies, and the disk if there are states in files.
constexpr int compute_lane = 0;
constexpr int communication_lane(int group) {
  return 1 + group;
}

std::vector<std::string> names_of_lanes(const Program& p) {
  std::vector<std::string> names{"compute"};
  for (const Group& group : p.groups)
    names.push_back(p.groups.size() == 1 ? "communication" : "communication, " + group.name);
  names.emplace_back("copies");
  if (p.has_files()) names.emplace_back("disk");
  return names;
}

// Viewers truncate to whole ns, so the value is a little more than a whole number.
double to_us(std::int64_t ns) {
  return (static_cast<double>(ns) + 0.4) * 1e-3;
}

class Writer {
 public:
  Writer(const Program& p, const TraceClock& clock)
      : p_(p), clock_(clock), lane_names_(names_of_lanes(p)) {}

  void name_lanes(const std::string& host) {
    describe(compute_lane, "process_name", {{"name", fmt::format("rank {} ({})", p_.rank, host)}});
    describe(compute_lane, "process_sort_index", {{"sort_index", p_.rank}});
    for (std::size_t i = 0; i < lane_names_.size(); ++i) {
      const int lane = static_cast<int>(i);
      describe(lane, "thread_name", {{"name", lane_names_[i]}});
      describe(lane, "thread_sort_index", {{"sort_index", tid(lane)}});
    }
  }

  void step(const StepTrace& trace) {
    if (trace.events.empty()) return;
    put({{"ph", "i"},
         {"s", "p"},
         {"name", fmt::format("step {}", trace.step)},
         {"cat", "step"},
         {"pid", p_.rank},
         {"tid", tid(compute_lane)},
         {"ts", us(trace.events.front().begin_ns)}});
    int micro = -1;
    auto carried = trace.copies.begin();
    for (std::size_t i = 0; i < trace.events.size(); ++i) {
      const TracedEvent& t = trace.events[i];
      const Segment& segment = p_.segments[t.segment];
      if (t.event == 0 && segment.kind == SegmentKind::micro) ++micro;
      const TracedCopy* copy =
          carried != trace.copies.end() && carried->event == i ? &*carried++ : nullptr;
      add(t, segment, std::max(0, micro), copy);
    }
    const auto begins = lane_begins_ns(trace.collectives);
    for (std::size_t i = 0; i < trace.collectives.size(); ++i)
      add(trace, trace.collectives[i], begins[i]);
  }

  std::string str() && { return std::move(text_); }

 private:
  void put(const OrderedJson& event) {
    if (!text_.empty()) text_ += ",\n";
    text_ += event.dump(-1, ' ', true, OrderedJson::error_handler_t::replace);
  }

  void describe(int lane, const char* name, OrderedJson args) {
    put({{"ph", "M"},
         {"name", name},
         {"pid", p_.rank},
         {"tid", tid(lane)},
         {"args", std::move(args)}});
  }

  double us(std::int64_t ns) const { return to_us(ns + clock_.offset_ns - clock_.zero_ns); }

  // In Perfetto a thread belongs to one process, whatever its name.
  int tid(int lane) const { return 1 + p_.rank * static_cast<int>(lane_names_.size()) + lane; }
  int copy_lane() const { return communication_lane(static_cast<int>(p_.groups.size())); }
  int disk_lane() const { return copy_lane() + 1; }

  void span(int lane, const std::string& name, const char* category, std::int64_t begin_ns,
            std::int64_t end_ns, OrderedJson args) {
    put({{"ph", "X"},
         {"name", name},
         {"cat", category},
         {"pid", p_.rank},
         {"tid", tid(lane)},
         {"ts", us(begin_ns)},
         {"dur", to_us(end_ns - begin_ns)},
         {"args", std::move(args)}});
  }

  // The names of the first parameters of an event.
  OrderedJson params(const Event& e) const {
    constexpr int most = 32;
    OrderedJson names = OrderedJson::array();
    for (int i = 0; i < std::min(e.params.count, most); ++i) {
      const auto id = static_cast<std::size_t>(p_.param_ids[e.params.first + i]);
      names.push_back(p_.model.params[id].name);
    }
    if (e.params.count > most) names.push_back(fmt::format("and {} more", e.params.count - most));
    return names;
  }

  // What an event works on: elements and bytes, read and written, and buffers.
  OrderedJson sizes(const Event& e) const {
    OrderedJson args = {{"op", to_string(e.op)}};
    std::int64_t elems = 0, bytes = 0;
    OrderedJson buffers = OrderedJson::array();
    for (int i = 0; i < e.operands.count; ++i) {
      const Operand& o = p_.operands[e.operands.first + i];
      const Slot& slot = p_.slots[o.slot];
      elems += o.elems;
      bytes += o.elems * dtype_bytes(slot.dtype);
      buffers.push_back(slot.name);
    }
    const bool own = e.elems > 0;  // else all elements that the event touches
    args["elems"] = own ? e.elems : elems;
    args["bytes"] = own ? e.elems * dtype_bytes(e.dtype) : bytes;
    args["dtype"] = to_string(e.dtype);
    args["buffers"] = std::move(buffers);
    if (e.params.count > 0) args["params"] = params(e);
    return args;
  }

  // An event waits first; the rest of its time is work. A copy between host and device is drawn on
  // the lane of copies.
  void add(const TracedEvent& t, const Segment& segment, int micro, const TracedCopy* carried) {
    const std::int64_t work_ns = t.begin_ns + t.exposed_ns;
    const Event* e = t.event < 0 ? nullptr : &segment.events[t.event];
    const bool collective = e != nullptr && is_collective(e->op);
    const std::string at =
        e == nullptr ? segment.name + ", end" : segment.name + ", event " + std::to_string(t.event);
    if (t.exposed_ns > 0)
      span(compute_lane, collective ? fmt::format("start {}", to_string(e->op)) : "wait", "exposed",
           t.begin_ns, collective ? t.end_ns : work_ns, {{"at", at}});
    held(t);
    if (e == nullptr || collective) return;
    const bool memory = e->op == Op::acquire || e->op == Op::release;
    if (memory && p_.memory_mode == MemoryMode::pooled) return;  // takes no time
    OrderedJson args =
        memory ? OrderedJson{{"op", to_string(e->op)}, {"bytes", alloc_bytes(p_.slots[e->slot])}}
               : sizes(*e);
    args["phase"] = phase_name(e->phase, micro);
    args["at"] = at;
    if (carried == nullptr)
      return span(compute_lane, event_name(p_, *e), memory ? "memory" : "kernel", work_ns, t.end_ns,
                  std::move(args));
    span(compute_lane, "start copy", "exposed", work_ns, t.end_ns, {{"at", at}});
    span(e->lane == Lane::disk ? disk_lane() : copy_lane(), event_name(p_, *e), "copy",
         carried->begin_ns, carried->end_ns, std::move(args));
  }

  // The bytes that are held, when they change.
  void held(const TracedEvent& t) {
    if (t.held_bytes == held_) return;
    held_ = t.held_bytes;
    OrderedJson held = OrderedJson::object();
    for (const Tier tier : all_values<Tier>)
      if (tier != Tier::nvme || p_.has_files()) held[std::string(to_string(tier))] = held_[tier];
    put({{"ph", "C"},
         {"name", "held bytes"},
         {"pid", p_.rank},
         {"tid", tid(compute_lane)},
         {"ts", us(t.end_ns)},
         {"args", std::move(held)}});
  }

  // The event of the plan that issued a collective; null if a fault did.
  const Event* issuer(const StepTrace& trace, const CollectiveRecord& r) const {
    const auto after =
        std::ranges::upper_bound(trace.events, r.issue_ns, {}, &TracedEvent::begin_ns);
    if (after == trace.events.begin() || std::prev(after)->event < 0) return nullptr;
    const TracedEvent& t = *std::prev(after);
    const Event& e = p_.segments[t.segment].events[t.event];
    return e.op == r.op && e.elems == r.elems && e.group == r.group ? &e : nullptr;
  }

  void add(const StepTrace& trace, const CollectiveRecord& r, std::int64_t begin_ns) {
    const std::string& buffer = trace.collective_names[r.name];
    OrderedJson args = {{"op", to_string(r.op)},
                        {"elems", r.elems},
                        {"bytes", r.elems * dtype_bytes(r.dtype)},
                        {"dtype", to_string(r.dtype)},
                        {"buffer", buffer}};
    args["group"] = p_.groups[r.group].name;
    if (const Event* e = issuer(trace, r); e != nullptr && e->params.count > 0)
      args["params"] = params(*e);
    args["queued_us"] = static_cast<double>(begin_ns - r.issue_ns) * 1e-3;
    args["exposed_us"] = static_cast<double>(r.blocked_ns) * 1e-3;
    span(communication_lane(r.group), fmt::format("{} {}", to_string(r.op), buffer),
         "communication", begin_ns, r.done_ns, std::move(args));
  }

  const Program& p_;
  const TraceClock& clock_;
  std::vector<std::string> lane_names_;
  EnumArray<Tier, std::int64_t> held_{};
  std::string text_;
};

}  // namespace

std::string trace_begin(const Program& p, const std::string& deck_name) {
  const OrderedJson about = {{"deck", deck_name},
                             {"world", p.world},
                             {"stage", p.stage},
                             {"schedule", to_string(p.schedule)},
                             {"steps", fmt::format("the first {} timed ones", most_traced_steps)}};
  return "{\"displayTimeUnit\": \"ms\", \"otherData\": " +
         about.dump(-1, ' ', true, OrderedJson::error_handler_t::replace) +
         ", \"traceEvents\": [\n";
}

std::string trace_events(const Program& p, const std::vector<StepTrace>& steps,
                         const TraceClock& clock, const std::string& host) {
  Writer writer(p, clock);
  writer.name_lanes(host);
  for (const StepTrace& step : steps) writer.step(step);
  return std::move(writer).str();
}

namespace {

std::int64_t ns(double seconds) {
  return static_cast<std::int64_t>(std::llround(seconds * 1e9));
}

}  // namespace

StepTrace predicted_trace(const Program& p, const PricedStep& priced) {
  StepTrace trace;
  trace.step = 0;
  std::map<std::string, int> names;
  for (const PricedEvent& e : priced.events) {
    TracedEvent t;
    t.segment = e.segment;
    t.event = e.event;
    t.begin_ns = ns(e.issue_s);
    t.exposed_ns = ns(e.waited_s);
    t.end_ns = std::max(t.begin_ns + t.exposed_ns, ns(e.end_s));
    const Event* event = e.event < 0 ? nullptr : &p.segments[e.segment].events[e.event];
    if (event != nullptr && is_collective(event->op)) {
      t.end_ns = t.begin_ns + t.exposed_ns;
      const int operand = event->op == Op::all_gather ? 1 : 0;
      std::string name;
      if (event->operands.count > operand)
        name = p.slots[p.operands[event->operands.first + operand].slot].name;
      const auto [it, fresh] = names.emplace(name, static_cast<int>(names.size()));
      if (fresh) trace.collective_names.push_back(name);
      CollectiveRecord r;
      r.op = event->op;
      r.dtype = event->dtype;
      r.elems = event->elems;
      r.name = it->second;
      r.group = event->group;
      r.issue_ns = t.end_ns;
      r.done_ns = std::max(r.issue_ns, ns(e.end_s));
      trace.collectives.push_back(r);
    } else if (event != nullptr && event->op == Op::copy) {
      trace.copies.push_back(
          {trace.events.size(), ns(e.begin_s), std::max(ns(e.begin_s), ns(e.end_s))});
      t.end_ns = t.begin_ns + t.exposed_ns;
    }
    trace.events.push_back(t);
  }
  std::ranges::stable_sort(trace.collectives, {}, &CollectiveRecord::done_ns);
  return trace;
}

}  // namespace shardmark
