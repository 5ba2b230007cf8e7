// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>

#include <miniapp/report/predicted_trace.hpp>

namespace shardmark {
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
    const Event* event = e.event < 0 ? nullptr
                                     : &p.segments[static_cast<std::size_t>(e.segment)]
                                            .events[static_cast<std::size_t>(e.event)];
    if (event != nullptr && is_collective(event->op)) {
      t.end_ns = t.begin_ns + t.exposed_ns;
      const int operand = event->op == Op::all_gather ? 1 : 0;
      const std::string name =
          event->operands.count > operand
              ? p
                    .slots[static_cast<std::size_t>(
                        p.operands[static_cast<std::size_t>(event->operands.first + operand)].slot)]
                    .name
              : std::string();
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
  std::stable_sort(
      trace.collectives.begin(), trace.collectives.end(),
      [](const CollectiveRecord& a, const CollectiveRecord& b) { return a.done_ns < b.done_ns; });
  return trace;
}

}  // namespace shardmark
