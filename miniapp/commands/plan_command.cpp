// SPDX-License-Identifier: Apache-2.0
// `shardmark plan` and `shardmark deck check`, which print pure functions of a deck.
#include <algorithm>
#include <optional>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <core/plan/build/fit_layers.hpp>
#include <core/plan/build/legal_program.hpp>
#include <core/plan/interpret/check.hpp>
#include <core/plan/interpret/copy_volume.hpp>
#include <core/plan/interpret/estimators.hpp>
#include <core/plan/interpret/node_volume.hpp>
#include <core/plan/interpret/print.hpp>
#include <core/plan/interpret/volume.hpp>
#include <core/plan/work/step_work.hpp>
#include <core/text.hpp>
#include <io/deck/deck_findings.hpp>
#include <io/deck/deck_reader.hpp>
#include <io/deepspeed/config.hpp>
#include <io/files/hash.hpp>
#include <miniapp/commands/commands.hpp>
#include <miniapp/report/standard_output.hpp>
#include <miniapp/run/budgets.hpp>

namespace shardmark {
namespace {

std::string summary(const Program& p, const Budgets& budgets) {
  const Footprint f = footprint(p);
  const auto allocated = allocated_bytes(p);
  std::string text = "\nsummary\n";
  for (const Tier t : all_values<Tier>) {
    const TierFootprint& tier = f.tiers[t];
    if (tier.peak_bytes == 0 && !budgets[t]) continue;
    text += fmt::format("  {:<7} peak {} bytes ({}, model states {} of it) at {}", to_string(t),
                        tier.peak_bytes, human_bytes(tier.peak_bytes),
                        human_bytes(state_bytes(tier.at_peak)),
                        describe_event(p, tier.segment, tier.event));
    if (tier.pinned_peak_bytes > 0)
      text += fmt::format("; pinned {}", human_bytes(tier.pinned_peak_bytes));
    if (p.memory_mode == MemoryMode::pooled && t != Tier::nvme)
      text += fmt::format("; arena of {} bytes", allocated[t]);
    if (budgets[t])
      text += fmt::format("; {} the budget of {}",
                          allocated[t] <= *budgets[t] ? "fits in" : "does NOT fit in",
                          human_bytes(*budgets[t]));
    text += '\n';
  }
  const Volume steady = steady_volume(p);
  for (const auto& [op, t] : steady)
    text += fmt::format("  {:<15} {:>8} calls {:>20} bytes per step\n", to_string(op), t.calls,
                        t.bytes);
  const LinkVolume link = steady_link_volume(p);
  for (const Direction d : all_values<Direction>)
    if (link[d].copies > 0)
      text += fmt::format("  {:<15} {:>8} copies {:>19} bytes per step\n", to_string(d),
                          link[d].copies, link[d].bytes);
  return text +
         fmt::format("  {:.4f} elements per parameter and step (an all_reduce counts twice{})\n",
                     volume_per_parameter(p, steady), volume_note(p));
}

// What this rank computes in a step, by phase, beside what the model needs.
std::string work_lines(const Program& p) {
  std::string text = "\nwork of this rank per step\n";
  const auto work = steady_work(p);
  for (const Phase phase : {Phase::forward, Phase::backward, Phase::step})
    text += fmt::format(
        "  {:<9} {:>10.4g} GFLOP in products, {:>10.4g} GB in other kernels, {:.0f} launches\n",
        phase == Phase::step ? "optimizer" : to_string(phase), work[phase].flops * 1e-9,
        work[phase].streamed_bytes * 1e-9, work[phase].launches);
  // Ranks that have the same samples share their tokens, or what these need.
  const double tokens = static_cast<double>(p.batch.micro * p.batch.accumulation) *
                        static_cast<double>(p.model.spec.sequence) / p.mesh.sharing();
  if (const double per_token = model_flops_per_token(p.model); per_token > 0)
    text += fmt::format("  model FLOPs {:.4g} GFLOP, by the usual formulas\n",
                        per_token * tokens * 1e-9);
  return text;
}

// Returns the same figures as JSON, for scripts.
nlohmann::ordered_json work_json(const Program& p) {
  nlohmann::ordered_json json;
  const auto work = steady_work(p);
  for (const Phase phase : {Phase::forward, Phase::backward, Phase::step})
    json[phase == Phase::step ? "optimizer" : std::string(to_string(phase))] = {
        {"flops", work[phase].flops},
        {"streamed_bytes", work[phase].streamed_bytes},
        {"launches", work[phase].launches}};
  json["model_flops_per_token"] = model_flops_per_token(p.model);
  return json;
}

std::string nodes_line(const Program& p, const Deck& deck, int ranks_per_node) {
  const auto volume = volume_between_nodes(p, deck, ranks_per_node);
  return volume ? "  " + describe(*volume, p) + "\n" : "";
}

std::string fit_line(const std::optional<Fit>& fit) {
  return fit ? fmt::format("  model.fit {}\n", describe(*fit)) : std::string{};
}

// People train long models with short sequences: what these would need, where the sequence is a
// guess.
constexpr std::int64_t usual_sequence = 4096;

std::optional<EnumArray<Tier, std::int64_t>> bytes_at_usual_sequence(
    Deck deck, const std::vector<Finding>& findings, const Batch& batch, const PlanArguments& a,
    const Profile& profile) {
  const bool guessed = std::ranges::any_of(
      findings, [](const Finding& f) { return f.key == "model.sequence" && f.upper_bound; });
  if (!guessed || deck.model.sequence <= usual_sequence) return {};
  deck.model.sequence = usual_sequence;
  return allocated_bytes(build_legal_program(deck, batch, a.ranks, a.rank, profile));
}

std::string usual_sequence_line(const std::optional<EnumArray<Tier, std::int64_t>>& bytes) {
  if (!bytes) return {};
  std::string text = fmt::format("  with model.sequence {}:", usual_sequence);
  for (const Tier t : memory_tiers)
    if ((*bytes)[t] > 0) text += fmt::format(" {} {}", to_string(t), human_bytes((*bytes)[t]));
  return text + "\n";
}

}  // namespace

ExitStatus plan_command(const PlanArguments& a) {
  LoadedDeck loaded = read_deck(a.deck, a.sets, DeckUse::plan, a.ranks);
  Deck& deck = loaded.deck;
  const Batch batch = infer_batch(deck, a.ranks);
  const Profile profile{.ranks_per_node = a.ranks_per_node};
  const auto fit = apply_fit(deck, batch, a.ranks, profile, deck_fit_budget(deck));
  const Program program = build_legal_program(deck, batch, a.ranks, a.rank, profile);
  const Budgets budgets = deck_budgets(deck, a.ranks_per_node);
  if (a.format == "dot") {
    print_out(print_dot(program));
    return ExitStatus::valid;
  }
  const std::string text = print_text(program);
  const auto shorter = bytes_at_usual_sequence(deck, loaded.findings, batch, a, profile);
  if (a.format == "json") {
    auto json = print_json(program, budgets, hash_hex(text));
    json["work"] = work_json(program);
    json["heaviest_ranks"] = heaviest_ranks(deck, a.ranks);
    if (fit) json["fit"] = print_json(*fit);
    if (!deck.assumptions.empty()) json["assumptions"] = deck.assumptions;
    if (shorter)
      json[fmt::format("memory_at_sequence_{}", usual_sequence)] = {
          {"device", (*shorter)[Tier::device]}, {"host", (*shorter)[Tier::host]}};
    if (const auto volume = volume_between_nodes(program, deck, a.ranks_per_node))
      json["volume"]["between_nodes"] = print_json(*volume);
    print_out(json.dump(2, ' ', true) + "\n");
  } else
    print_out(note_lines(deck) + text + summary(program, budgets) + usual_sequence_line(shorter) +
              nodes_line(program, deck, a.ranks_per_node) + fit_line(fit) + work_lines(program) +
              print_estimates(program.model, program.partition_ranks(), a.ranks_per_node));
  return ExitStatus::valid;
}

ExitStatus deck_check_command(const CheckArguments& a) {
  const auto ranks = a.ranks > 0 ? std::optional<int>(a.ranks) : std::nullopt;
  const LoadedDeck loaded = read_deck(a.deck, a.sets, DeckUse::plan, ranks);
  print_out(format_findings(loaded, check_deck(loaded, ranks)));
  if (ranks) {
    Deck deck = loaded.deck;
    const Batch batch = infer_batch(deck, *ranks);
    const auto fit = apply_fit(deck, batch, *ranks, Profile{}, deck_fit_budget(deck));
    const Program program = build_program(deck, batch, *ranks, 0, Profile{});
    require_legal(check(program));
    print_out(summary(program, deck_budgets(deck, 1)) + nodes_line(program, deck, 1) +
              fit_line(fit));
  }
  return ExitStatus::valid;
}

}  // namespace shardmark
