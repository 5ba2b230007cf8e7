// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include <core/plan/interpret/volume.hpp>
#include <core/text.hpp>
#include <miniapp/predict/prediction.hpp>

namespace shardmark {

const std::array<MemoryKind, 4> memory_kinds{
    MemoryKind{"states", [](const CategoryBytes& b) { return state_bytes(b); }},
    MemoryKind{"activations", [](const CategoryBytes& b) { return b[Category::activation]; }},
    MemoryKind{"buffers",
               [](const CategoryBytes& b) {
                 return b[Category::bucket] + b[Category::gathered] + b[Category::staging];
               }},
    MemoryKind{"workspaces", [](const CategoryBytes& b) { return b[Category::workspace]; }}};

namespace {

std::string percent(const std::optional<double>& part) {
  return part ? fmt::format("{:.1f} %", *part * 100) : std::string("–");
}

// A row of the table: a deck that does not fit has no time, unless it was asked for.
std::string row(const PredictedPoint& p) {
  std::string text = fmt::format("{:>8}", p.ranks);
  if (p.timed)
    text += fmt::format(" {:>12} {:>25} {:>14} {:>8}  {}", duration(p.step_s),
                        fmt::format("{} to {}", duration(p.step_s_low), duration(p.step_s_high)),
                        four_digits(p.tokens_per_s), percent(p.mfu), p.limited_by());
  if (!p.memory.fits()) text += fmt::format("  DOES NOT FIT: {}", p.memory.shortfall());
  return text + "\n";
}

std::string time_lines(const PredictedPoint& p) {
  const PricedStep& s = p.priced;
  const double all = p.step_s > 0 ? p.step_s : 1;
  const auto ms = [](double seconds) { return fmt::format("{:.2f} ms", seconds * 1e3); };
  std::string text = fmt::format("  forward {}   backward {}   optimizer {}   copies {}\n",
                                 ms(s.phase_s[Phase::forward]), ms(s.phase_s[Phase::backward]),
                                 ms(s.phase_s[Phase::step]), ms(s.copies_s));
  text += fmt::format("  communication exposed {} ({:.1f} % of the step), hidden {}\n",
                      ms(s.exposed_s), s.exposed_s / all * 100, ms(s.hidden_s));
  if (p.hfu)
    text += fmt::format(
        "  MFU {}   HFU {} (the products that are computed: with recomputation, and without the "
        "masked half of attention, which MFU counts)\n",
        percent(p.mfu), percent(p.hfu));
  text += "  where the time of the compute lane goes:";
  for (const Resource r : all_values<Resource>)
    if (s.critical[r] > 0.0005 * all)
      text += fmt::format("  {} {:.1f} %", to_string(r), s.critical[r] / all * 100);
  text += fmt::format("\n  limited by {}\n", p.limited_by());
  for (const Sensitivity& g : p.sensitivities)
    if (g.gain > 0.001)
      text += fmt::format("    10 % faster {}: a step is {:.1f} % shorter\n", to_string(g.resource),
                          g.gain * 100);
  for (const std::string& sentence : p.extrapolates)
    text += fmt::format("  extrapolates {}\n", sentence);
  return text;
}

// With model.fit the model follows the memory of all ranks.
std::string sizes_note(const std::vector<PredictedPoint>& points) {
  const auto [smallest, largest] =
      std::ranges::minmax_element(points, {}, &PredictedPoint::parameters);
  if (points.empty() || smallest->parameters == largest->parameters) return {};
  return fmt::format(
      "The models differ, from {} parameters on {} to {} on {}, so their tokens/s cannot be "
      "compared; `shardmark compare` on the output of --format json compares tokens per second "
      "times "
      "parameters.\n",
      smallest->parameters, plural(smallest->ranks, "rank"), largest->parameters,
      plural(largest->ranks, "rank"));
}

// "model      llama: 6738415616 parameters, 32 layers; sequence 2048"
std::string subject_line(const Deck& deck, const std::vector<PredictedPoint>& points) {
  if (points.empty()) return {};
  const PredictedPoint& p = points.front();
  std::string text = fmt::format("model: {} parameters", p.parameters);
  if (p.layers > 0) text += " in " + plural(p.layers, "layer");
  if (deck.model.sequence > 0) text += fmt::format(", {} tokens per sample", deck.model.sequence);
  return text + fmt::format("; {}, ZeRO stage {}\n", to_string(deck.run.schedule), deck.zero.stage);
}

std::string states_of(const CategoryBytes& bytes) {
  std::string text;
  for (const Category c :
       {Category::param, Category::grad, Category::master, Category::momentum, Category::variance})
    if (bytes[c] > 0) add_item(text, fmt::format("{} {}", to_string(c), human_bytes(bytes[c])));
  return text.empty() ? text : " (" + text + ")";
}

std::string memory_lines(const PredictedPoint& p, Tier tier, const TierFootprint& at) {
  const MemoryFit::Need& need = p.memory.tiers[tier];
  const auto& budget = p.memory.budgets[tier];
  std::string text = fmt::format("  {} memory, rank {}: {} live at the peak", to_string(tier),
                                 p.program.rank, human_bytes(at.peak_bytes));
  text += fmt::format(", {} allocated by the rank that needs most", human_bytes(need.bytes));
  text += budget ? fmt::format(", budget {} ({}): {}\n", human_bytes(*budget),
                               p.memory.budget_source[tier],
                               need.missing > 0 ? human_bytes(need.missing) + " missing" : "fits")
                 : std::string(", budget unknown: not checked\n");
  for (const MemoryKind& kind : memory_kinds)
    if (const std::int64_t bytes = kind.bytes(at.at_peak); bytes > 0)
      text += fmt::format("    {:<11} {:>10}{}\n", kind.name, human_bytes(bytes),
                          kind.name == "states" ? states_of(at.at_peak) : "");
  return text;
}

// The memory of the rank at its peak beside the budgets, and the volume of a step.
std::string cost_text(const PredictedPoint& p) {
  std::string text;
  const Footprint bytes = footprint(p.program);
  for (const Tier t : all_values<Tier>)
    if (bytes[t].peak_bytes > 0) text += memory_lines(p, t, bytes[t]);
  const Volume volume = steady_volume(p.program);
  std::string calls;
  for (const auto& [op, traffic] : volume)
    if (traffic.elems > 0)
      add_item(calls, fmt::format("{} of {} ({})", plural(traffic.calls, "call"), to_string(op),
                                  human_bytes(traffic.bytes)));
  text += fmt::format("  volume per step: {}; {:.3f} elements per parameter{}\n",
                      calls.empty() ? "nothing is sent" : calls,
                      volume_per_parameter(p.program, volume), volume_note(p.program));
  return text;
}

std::string detail(const PredictedPoint& p) {
  std::string text = fmt::format("\n{}\n", plural(p.ranks, "rank"));
  if (!p.memory.fits()) text += fmt::format("  {}\n", p.memory.refusal);
  if (const std::string tight = p.memory.tightness(); !tight.empty())
    text += fmt::format("  {}\n", tight);
  if (const std::string unknown = p.memory.unknown(); !unknown.empty())
    text += fmt::format(
        "  whether it fits is unknown: neither the machine file nor the deck gives {}\n", unknown);
  text += fmt::format("  batch: {} per step: {} per micro-batch x {} accumulation x {}\n",
                      plural(p.program.batch.global, "sample"), p.program.batch.micro,
                      p.program.batch.accumulation, plural(p.program.mesh.data_parts(), "rank"));
  for (const std::string& sentence : p.notes) text += fmt::format("  note: {}\n", sentence);
  text += cost_text(p);
  return p.timed ? text + time_lines(p) : text;
}

// "figures: 6 nominal, 4 measured": by kind, of a machine that nobody has calibrated.
std::string figures_line(const MachineProvenance& p) {
  const FigureCounts counts = figure_counts(p);
  std::vector<std::string> parts;
  for (const FigureKind kind : all_values<FigureKind>)
    if (counts[kind] > 0) parts.push_back(fmt::format("{} {}", counts[kind], to_string(kind)));
  return parts.empty() ? "" : "figures: " + join(parts, ", ");
}

// "measured points: 812 of products, 96 of collectives": what there is.
std::string points_line(const Machine& m) {
  std::size_t products = 0, kernels = 0, collectives = 0;
  for (const auto& t : m.device.products) products += t.points.size();
  for (const auto& t : m.device.streams) kernels += t.points.size();
  for (const auto& n : m.network)
    for (const auto& t : n.collectives) collectives += t.points.size();
  std::vector<std::string> parts;
  for (const auto& [count, what] : {std::pair{products, "products"}, std::pair{kernels, "kernels"},
                                    std::pair{collectives, "collectives"}})
    if (count > 0) parts.push_back(fmt::format("{} of {}", count, what));
  return parts.empty() ? "" : "measured points: " + join(parts, ", ");
}

}  // namespace

std::string standing(const Machine& m) {
  const MachineProvenance& p = m.provenance;
  std::string text = fmt::format("{}", m.name);
  if (!p.host.empty() || !p.date.empty())
    text += fmt::format(", measured{}{}{}{}", p.host.empty() ? "" : " on ", p.host,
                        p.date.empty() ? "" : " at ", p.date);
  if (!p.source.empty()) text += fmt::format(", from {}", p.source);
  if (const std::string figures = figures_line(p); !figures.empty()) text += "; " + figures;
  if (const std::string points = points_line(m); !points.empty()) text += "; " + points;
  if (!m.placements.empty()) {
    std::vector<std::string> distances;
    for (const Placement& placement : m.placements)
      distances.push_back(fmt::format("{:.0f}", placement.core_to_core_s * 1e9));
    text += fmt::format("; cores that were {} ns apart", join(distances, " or "));
  }
  if (p.held_out_error)
    text += fmt::format("; points that were left out are missed by {:.1f} % on average",
                        *p.held_out_error * 100);
  if (p.busy.value_or(false)) text += "; the machine was BUSY meanwhile";
  return text;
}

std::string prediction_text(const Deck& deck, const Machine& machine,
                            const std::vector<PredictedPoint>& points) {
  std::string text = fmt::format("{} on {}\n{}\n{:>8} {:>12} {:>25} {:>14} {:>8}  {}\n", deck.name,
                                 standing(machine), subject_line(deck, points), "ranks", "step",
                                 "9 of 10 steps within", "tokens/s", "MFU", "limited by");
  for (const PredictedPoint& p : points) text += row(p);
  text += sizes_note(points);
  for (const PredictedPoint& p : points) text += detail(p);
  return text;
}

}  // namespace shardmark
