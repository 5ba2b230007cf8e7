// SPDX-License-Identifier: Apache-2.0
#include <iterator>
#include <vector>

#include <fmt/core.h>

#include <core/plan/interpret/print.hpp>
#include <core/printable.hpp>
#include <core/text.hpp>

namespace shardmark {
namespace {

std::string range_text(const Program& p, const Operand& o) {
  const Slot& slot = p.slots[o.slot];
  if (o.offset == 0 && o.elems == slot.elems) return printable(slot.name);
  return fmt::format("{}[{}, +{}]", printable(slot.name), o.offset, o.elems);
}

// The module, parameter or unit that a compute event is about; empty: none.
std::string owner_name(const Program& p, const Event& e) {
  if (e.module >= 0) return printable(p.model.modules[e.module].name);
  if (e.params.count == 1) return printable(p.model.params[p.param_ids[e.params.first]].name);
  return e.unit >= 0 ? printable(p.model.units[e.unit].name) : "";
}

// What an event does and to which buffers, without its number, phase and lane.
std::string body(const Program& p, const Event& e) {
  const auto ops = p.operands_of(e);
  if (e.op == Op::acquire || e.op == Op::release)
    return fmt::format("{:<14} {} ({} {}, {} bytes)", to_string(e.op),
                       printable(p.slots[e.slot].name), to_string(e.tier), to_string(e.category),
                       alloc_bytes(p.slots[e.slot]));
  if (e.op == Op::copy)
    return fmt::format("{:<14} {} <- {} ({} x {}, to {})", to_string(e.op), range_text(p, ops[1]),
                       range_text(p, ops[0]), to_string(e.dtype), e.elems, to_string(e.tier));
  if (e.op == Op::compute) {
    std::string text = fmt::format("{:<14}", to_string(e.kernel));
    if (!owner_name(p, e).empty()) text += " " + owner_name(p, e);
    std::string_view separator = ":";
    for (const Operand& o : ops) {
      text += fmt::format("{} {}{}", separator, range_text(p, o),
                          o.writes && o.reads ? " u"
                          : o.writes          ? " w"
                                              : " r");
      separator = ",";
    }
    if (e.divisor != 1) text += fmt::format("  / {}", e.divisor);
    return text;
  }
  std::string text = fmt::format("{:<14}", to_string(e.op));
  if (ops.size() >= 2)
    text += fmt::format(" {} <- {}", range_text(p, ops[1]), range_text(p, ops[0]));
  text += fmt::format(" ({} x {}", to_string(e.dtype), e.elems);
  if (e.reduction != Reduction::none) text += fmt::format(", {}", to_string(e.reduction));
  if (e.root >= 0) text += fmt::format(", root {}", e.root);
  if (e.group != 0) text += fmt::format(", group {}", p.groups[e.group].name);
  if (e.parts.count > 0) text += fmt::format(", parts of at most {}", e.largest_part);
  return text + ")";
}

std::string alive_text(const Program& p, const EndState& end) {
  const auto bytes = live_at(p, end);
  std::string text = fmt::format("gradients {}", to_string(end.gradients));
  for (const Tier t : all_values<Tier>)
    for (const Category c : all_values<Category>)
      if (bytes[t][c] > 0)
        text += fmt::format(", {} {} {}", to_string(t), to_string(c), bytes[t][c]);
  return text;
}

// "micro_first, micro_middle x 3, micro_last, boundary, update"
std::string step_text(const Program& p, const Step& step) {
  std::string text;
  for (const SegmentRun& run : runs_of(step, false)) {
    if (!text.empty()) text += ", ";
    std::vector<std::string> names;
    for (int segment : run.segments) names.push_back(p.segments[segment].name);
    const std::string joined = join(names, ", ");
    text += names.size() > 1 ? "(" + joined + ")" : joined;
    if (run.times > 1) text += fmt::format(" x {}", run.times);
  }
  return text;
}

}  // namespace

std::string phase_name(Phase phase, int micro_batch) {
  switch (phase) {
    case Phase::init: return "init";
    case Phase::forward: return "f" + std::to_string(micro_batch);
    case Phase::backward: return "b" + std::to_string(micro_batch);
    case Phase::step: return "s";
  }
  return "?";
}

std::string print_text(const Program& p) {
  std::string text;
  auto out = std::back_inserter(text);
  fmt::format_to(out, "program: schedule {}, stage {}, rank {} of {}, {} reductions\n",
                 to_string(p.schedule), p.stage, p.rank, p.world, to_string(p.reductions));
  fmt::format_to(out, "parameters: {} in {} units; padded {}, this rank {}\n", p.model.elems,
                 p.model.units.size(), p.partition.padded, p.partition.per_rank);
  for (const Group& g : p.groups)
    if (!g.ranks.empty()) fmt::format_to(out, "group {}: {}\n", g.name, describe_ranks(g));
  fmt::format_to(out, "batch: {} = {} a micro-batch x {} accumulation x {} ranks\n", p.batch.global,
                 p.batch.micro, p.batch.accumulation, p.mesh.data_parts());
  for (std::size_t i = 0; i < p.steps.size(); ++i) {
    const Step& step = p.steps[i];
    fmt::format_to(out, "step {}: {}; then step {}", i, step_text(p, step), step.after_update);
    if (step.skip >= 0)
      fmt::format_to(out, "; if its gradients overflow: {} for {}, then step {}",
                     p.segments[step.skip].name, p.segments[step.update].name, step.after_skip);
    text += '\n';
  }
  for (const Segment& s : p.segments) {
    fmt::format_to(out, "\nsegment {}\n  entry: {}\n", s.name, alive_text(p, s.entry));
    for (std::size_t i = 0; i < s.events.size(); ++i) {
      const Event& e = s.events[i];
      fmt::format_to(out, "{:>6} {:<4} {:<8} {}", i, phase_name(e.phase, e.micro_batch),
                     to_string(e.lane), body(p, e));
      for (int a = 0; a < e.after.count; ++a)
        fmt::format_to(out, "{}{}", a == 0 ? "  after " : ", ", p.edges[e.after.first + a]);
      text += '\n';
    }
    fmt::format_to(out, "  exit: {}\n", alive_text(p, s.exit));
  }
  return text;
}

std::string print_dot(const Program& p) {
  std::string text = "digraph program {\n  rankdir=TB;\n  node [shape=box, fontname=monospace];\n";
  auto out = std::back_inserter(text);
  static constexpr auto colors = enum_names<Lane>("#d7e8fa", "#fbe3c8", "#dff2d8", "#e6dcf5");
  for (std::size_t s = 0; s < p.segments.size(); ++s) {
    const Segment& segment = p.segments[s];
    fmt::format_to(out, "  subgraph cluster_{} {{\n    label=\"{}\";\n", s, segment.name);
    std::array<int, queue_count> last{};
    last.fill(-1);
    std::vector<int> shown;  // by event: itself or the last one that its queue shows; -1: none
    for (std::size_t i = 0; i < segment.events.size(); ++i) {
      const Event& e = segment.events[i];
      const int queue = queue_of(e);
      const bool memory = e.op == Op::acquire || e.op == Op::release;
      shown.push_back(memory ? last[queue] : static_cast<int>(i));
      if (memory) continue;  // only the text shows these
      const std::string label =
          e.op == Op::compute
              ? fmt::format("{} {}", to_string(e.kernel), owner_name(p, e))
              : fmt::format("{} {}\\n{} x {}", to_string(e.op),
                            e.unit >= 0 ? printable(p.model.units[e.unit].name) : "",
                            to_string(e.dtype), e.elems);
      fmt::format_to(out, "    s{}e{} [label=\"{}\", group={}, style=filled, fillcolor=\"{}\"];\n",
                     s, i, label, to_string(e.lane), colors[e.lane]);
      if (last[queue] >= 0) fmt::format_to(out, "    s{0}e{1} -> s{0}e{2};\n", s, last[queue], i);
      last[queue] = static_cast<int>(i);
      for (int a = 0; a < e.after.count; ++a) {
        const int before = shown[static_cast<std::size_t>(p.edges[e.after.first + a])];
        if (before >= 0)
          fmt::format_to(out, "    s{0}e{1} -> s{0}e{2} [style=dashed];\n", s, before, i);
      }
    }
    text += "  }\n";
  }
  return text + "}\n";
}

}  // namespace shardmark
