// SPDX-License-Identifier: Apache-2.0
// The paragraph for people who decide, sentence by sentence.
#include <algorithm>
#include <map>

#include <fmt/core.h>

#include <core/text.hpp>
#include <io/deck/deck_keys.hpp>
#include <miniapp/tools/advise/answer/configuration.hpp>
#include <miniapp/tools/advise/answer/print.hpp>
#include <miniapp/tools/advise/knobs.hpp>

namespace shardmark {
namespace {

std::string what_to_use(const Advice& a) {
  const Candidate& best = a.candidates.front();
  const AdviseCase& q = a.question;
  std::string text =
      fmt::format("Use {}, to train {} with {} on {} of {}.",
                  configuration(best, q.framework, a.given_beside(best)),
                  model_line(a.deck, a.best.program.model.parameters), traits(q.framework).title,
                  plural(q.ranks, "rank"), q.machine->name);
  if (best.schedule == Schedule::paper)
    text +=
        " The schedule paper is the ZeRO paper's own, which neither DeepSpeed nor PyTorch runs: "
        "ask with --for deepspeed or --for torch for settings of theirs.";
  return text;
}

// Whether the deck has the value of the change, which with the change's stage it would lose.
bool has_already(const Advice& a, const KnobChange& change) {
  for (std::size_t i = 0; i < a.given.size(); ++i)
    if (knobs()[i].key == change.key) return a.given[i] == change.to;
  return false;
}

std::string what_changes(const Advice& a) {
  const Candidate& best = a.candidates.front();
  const std::vector<KnobChange> changes =
      knob_changes(best.changes, a.given_beside(best), best.values);
  if (changes.empty()) return " That is the deck as it is.";
  std::vector<std::string> parts;
  for (const KnobChange& c : changes)
    parts.push_back(has_already(a, c)
                        ? fmt::format("{} {}, as it is now (at stage {} only if it is given)",
                                      c.name, c.to, best.stage)
                        : fmt::format("{} {} -> {}", c.name, c.from, c.to));
  return fmt::format(" Changes to the deck: {}.", join(parts, "; "));
}

// "70.83 GiB of 74.45 GiB of device memory (94 % of a device's 79.2 GiB)".
std::string part_of_budget(const Advice& a, Tier tier) {
  const MemoryFit& memory = a.best.memory;
  std::string text = human_bytes(memory.tiers[tier].bytes);
  if (memory.budgets[tier]) text += " of " + human_bytes(*memory.budgets[tier]);
  text += fmt::format(" of {} memory", to_string(tier));
  if (memory.budgets[tier]) text += fmt::format(" ({})", memory.budget_source[tier]);
  return text;
}

std::string what_it_gives(const Advice& a) {
  const Candidate& best = a.candidates.front();
  std::string text = fmt::format(
      " A step of {} takes {} (9 of 10 steps within {} to {}), which is {} tokens "
      "per second",
      plural(a.global_batch, "sequence"), duration(best.step_s), duration(a.best.step_s_low),
      duration(a.best.step_s_high), four_digits(best.tokens_per_s));
  if (a.best.memory.budgets[Tier::device])
    text += ". A rank takes " + part_of_budget(a, Tier::device);
  if (best.bytes[Tier::host] >= mib_bytes) text += " and " + part_of_budget(a, Tier::host);
  text += '.';
  return text;
}

// "1.5 % slower", or "equally fast" where no digit would show.
std::string speed_beside(const Candidate& other, const Candidate& best) {
  const double slower = other.step_s > 0 ? 1 - best.step_s / other.step_s : 0;
  return slower < no_difference ? "equally fast" : fmt::format("{:.1f} % slower", 100 * slower);
}

// "1.5 % slower and takes 70.83 GiB".
std::string cost_beside(const Candidate& other, const Candidate& best) {
  return fmt::format("{} and takes {}", speed_beside(other, best),
                     human_bytes(other.bytes[Tier::device]));
}

// What to use if the best one turns out not to fit.
std::string what_has_room(const Advice& a) {
  const std::string tight = a.best.memory.tightness();
  if (tight.empty()) return "";
  const std::string care =
      fmt::format(" Take care: {}, and a framework may need more than the plan.", tight);
  if (!a.with_room) return care + " No other candidate that fits has more room.";
  const Candidate& other = *a.with_room;
  return care + fmt::format(" The fastest with room, {}, is {}.",
                            beside(other, a.candidates.front(), a.question.framework,
                                   a.given_beside(other)),
                            cost_beside(other, a.candidates.front()));
}

// What the deck becomes where it is written for another framework's schedule.
std::string deck_as_it_is(const Advice& a) {
  if (changes_for(a.question.framework).empty() || a.as_given.schedule == a.deck.run.schedule)
    return "The deck as it is";
  return fmt::format("The deck under the schedule {}, otherwise as it is,",
                     to_string(a.as_given.schedule));
}

std::string what_the_deck_gives(const Advice& a) {
  const Candidate& given = a.as_given;
  if (given.values == a.candidates.front().values) return "";
  if (!given.fits)
    return given.missing_bytes > 0
               ? fmt::format(" {} does not fit: {}.", deck_as_it_is(a), given.refusal)
               : "";
  // Another global batch is another training, which is not compared.
  if (given.values.empty() || a.given_batch != a.global_batch) return "";
  std::string deck = deck_as_it_is(a);
  if (!deck.ends_with(',')) deck += ',';
  return fmt::format(" {} {} {}, is {}.", deck,
                     given.stage == a.candidates.front().stage ? "also stage" : "stage",
                     given.stage, cost_beside(given, a.candidates.front()));
}

// What is divided, in words: "tensors over 2 and experts over 4 ranks".
std::string division_of(const Candidate& c) {
  constexpr const char* names[] = {"tensors", "samples", "experts"};
  std::vector<std::string> parts;
  const auto axes = c.parallel.axes();
  for (std::size_t i = 0; i < axes.size(); ++i)
    if (axes[i].ranks > 1) parts.push_back(fmt::format("{} over {}", names[i], axes[i].ranks));
  return join(parts, " and ") + " ranks";
}

// Whether to divide the model, and what the other choice would cost.
std::string what_is_divided(const Advice& a) {
  const Candidate& best = a.candidates.front();
  const auto& other = a.of_other_kind;
  if (!best.parallel.divides()) {
    if (!a.divisions_tried) return "";
    if (!other)
      return " Dividing tensors, samples or experts was tried, too; no such candidate fits.";
    return fmt::format(
        " Dividing the model does not pay: the fastest candidate that does, stage {} with {}, is "
        "{}.",
        other->stage, division_of(*other), cost_beside(*other, best));
  }
  std::string text = fmt::format(" This divides {}", division_of(best));
  if (other)
    text += fmt::format(": the fastest candidate that divides nothing is {}",
                        cost_beside(*other, best));
  else if (std::ranges::any_of(a.refused, [](const Candidate& c) {
             return !c.parallel.divides() && c.missing_bytes > 0;
           }))
    text += ": no candidate that divides nothing fits";
  text += '.';
  if (best.parallel.sequence > 1)
    text +=
        " The training script must call UlyssesSPAttentionHF.register_with_transformers; the key "
        "alone changes nothing but the batch.";
  return text;
}

// The next best of another stage is among the best of the stages.
std::string next_best(const Advice& a) {
  if (a.candidates.size() < 2 || a.candidates[1].stage != a.candidates[0].stage) return "";
  const Candidate& next = a.candidates[1];
  if (a.with_room && a.with_room->changes == next.changes) return "";  // it is named already
  return fmt::format(" The next best, {}, is {}.",
                     beside(next, a.candidates[0], a.question.framework, a.given_beside(next)),
                     cost_beside(next, a.candidates[0]));
}

std::string why_not(const Advice& a, int stage) {
  const Candidate* refused = nullptr;
  for (const Candidate& c : a.refused) {
    if (c.stage != stage) continue;
    if (c.missing_bytes > 0) return fmt::format("Stage {} does not fit.", stage);
    if (refused == nullptr) refused = &c;
  }
  return refused == nullptr ? fmt::format("Stage {} is not among the candidates.", stage)
                            : fmt::format("Stage {} is refused: {}.", stage,
                                          refusal_clause(a.deck, refused->refusal));
}

// Whether a stage makes no difference to the candidate.
bool has_the_plan_of(const Candidate& c, int stage) {
  const std::string key(key_path<&ZeroSpec::stage>());
  return std::ranges::any_of(c.without_effect, [&](const IdleKey& idle) {
    return idle.key == key && std::find(idle.values.begin(), idle.values.end(),
                                        std::to_string(stage)) != idle.values.end();
  });
}

std::string other_stages(const Advice& a) {
  const Candidate& best = a.candidates.front();
  std::string text;
  for (std::size_t i = 1; i < a.best_of_stage.size(); ++i) {
    const Candidate& other = a.best_of_stage[i];
    if (a.with_room && a.with_room->changes == other.changes) continue;  // it is named already
    if (has_the_plan_of(best, other.stage)) {
      text += fmt::format(" Stage {} has the same plan.", other.stage);
      continue;
    }
    text += fmt::format(" The best of stage {} is {}.", other.stage, cost_beside(other, best));
  }
  for (int stage = 0; stage <= 3; ++stage) {
    const auto has_it = [&](const Candidate& c) { return c.stage == stage; };
    if (std::ranges::any_of(a.best_of_stage, has_it)) continue;
    text += " " + why_not(a, stage);
  }
  return text;
}

std::string what_limits(const Advice& a) {
  std::string text = fmt::format(" The step is limited by {}", a.best.limited_by());
  if (!a.best.sensitivities.empty() && a.best.sensitivities.front().gain > 0.001)
    text += fmt::format(": 10 % more of it makes a step {:.1f} % shorter",
                        100 * a.best.sensitivities.front().gain);
  return text + '.';
}

std::string gb_per_s(double bytes_per_s) {
  const double rate = bytes_per_s * 1e-9;
  return rate < 1000 ? fmt::format("{:.3g}", rate) : fmt::format("{:.0f}", rate);
}

// "below 42.9 GB/s", up to the ends of what was tried.
std::string range_text(const Crossing& c, double rate) {
  constexpr double lowest = 1.0 / 64, highest = 16, about = 1.01;
  const double low = std::min(c.node_bytes_per_s, c.until_bytes_per_s);
  const double high = std::max(c.node_bytes_per_s, c.until_bytes_per_s);
  if (c.below && low <= rate * lowest * about) return fmt::format("below {} GB/s", gb_per_s(high));
  if (!c.below && high * about >= rate * highest)
    return fmt::format("above {} GB/s", gb_per_s(low));
  return fmt::format("between {} and {} GB/s", gb_per_s(low), gb_per_s(high));
}

// Each candidate once, with all of its ranges.
std::string where_it_changes(const Advice& a) {
  const AdviseCase& q = a.question;
  const double rate = network_rate(*q.machine, q.ranks, q.ranks_per_node);
  if (a.crossings.empty() || rate <= 0) return "";
  std::map<std::size_t, std::pair<std::vector<std::string>, double>> ranges;
  for (const Crossing& c : a.crossings) {
    auto& [where, gain] = ranges[c.candidate];
    where.push_back(range_text(c, rate));
    gain = std::max(gain, c.gain);
  }
  std::vector<std::string> parts;
  for (const auto& [candidate, found] : ranges)
    parts.push_back(fmt::format("{} {}, by up to {:.0f} %", join(found.first, " and "),
                                beside(a.best_of_stage[candidate], a.candidates.front(),
                                       q.framework, a.given_beside(a.best_of_stage[candidate])),
                                100 * found.second));
  const bool between = q.ranks > q.ranks_per_node;
  return fmt::format(
      " This network has {} GB/s per {}. Compared among the best of each stage here, with another "
      "bandwidth these would be faster: {}. A search for that network may find still others.",
      gb_per_s(rate), between ? "node" : "link", join(parts, "; "));
}

// DeepSpeed's section `activation_checkpointing` says how DeepSpeed's own function recomputes, and
// does not call it.
std::string who_recomputes(const Advice& a) {
  const Candidate& best = a.candidates.front();
  const bool off = a.deck.run.activation_checkpointing && !best.recomputes;
  if (off)
    return " Recomputation is the model's own doing: leave out its calls of checkpoint(), in "
           "Transformers gradient_checkpointing.";
  if (!best.recomputes) return "";
  if (a.question.framework == Framework::torch)
    return " Recomputation: wrap each block in checkpoint_wrapper before it is sharded.";
  return " Recomputation is the model's own doing: it must call torch.utils.checkpoint or "
         "deepspeed.checkpointing.checkpoint for each block, in Transformers "
         "gradient_checkpointing_enable(); DeepSpeed's section activation_checkpointing alone "
         "recomputes nothing.";
}

// Products of a type without a peak are priced as fp32's.
std::string which_type(const Advice& a) {
  const DeviceModel& device = a.question.machine->device;
  const Dtype type = a.deck.zero.precision.computes_in();
  if (device.is_host || device.peak_flops[type] > 0 || device.peak_flops[Dtype::fp32] <= 0)
    return "";
  std::string text = fmt::format(
      " This machine has no peak for {}, so its products are priced at the rate of fp32",
      to_string(type));
  if (type == Dtype::bf16 && device.peak_flops[Dtype::fp16] > 0)
    text += "; it has one for fp16: ask with fp16 instead of bf16";
  return text + '.';
}

std::string notes_of(const Advice& a) {
  std::string text;
  for (const std::string& sentence : a.best.notes) text += fmt::format(" Note: {}.", sentence);
  return text;
}

std::string where_files_go(const Advice& a) {
  if (a.candidates.front().bytes[Tier::nvme] == 0) return "";
  return " Set nvme_path to a folder on each node's own disk.";
}

}  // namespace

std::string verdict(const Advice& a) {
  return what_to_use(a) + what_changes(a) + what_it_gives(a) + what_has_room(a) +
         what_the_deck_gives(a) + what_is_divided(a) + next_best(a) + other_stages(a) +
         what_limits(a) + where_it_changes(a) + which_type(a) + who_recomputes(a) +
         where_files_go(a) + notes_of(a);
}

}  // namespace shardmark
