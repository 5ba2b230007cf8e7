// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include <fmt/core.h>

#include <core/text.hpp>
#include <miniapp/advise/print.hpp>

namespace shardmark {
namespace {

const std::string* value_of(const Candidate& c, std::string_view key) {
  for (const auto& [name, value] : c.changes)
    if (name == key) return &value;
  return nullptr;
}

// The knobs beyond stage, schedule and batch, in short.
std::string extras(const Candidate& c) {
  static const std::vector<std::pair<std::string_view, std::string_view>> names{
      {"deepspeed.zero_optimization.reduce_bucket_size", "bucket"},
      {"deepspeed.zero_optimization.overlap_comm", "overlap_comm"},
      {"deepspeed.zero_optimization.stage3_prefetch_bucket_size", "prefetch"},
      {"deepspeed.zero_optimization.stage3_param_persistence_threshold", "persistence"},
      {"deepspeed.zero_optimization.zero_hpz_partition_size", "hpZ"},
      {"deepspeed.zero_optimization.stage3_max_reuse_distance", "reuse"},
      {"run.shard_size", "shard_size"},
      {"torch.mesh", "mesh"},
      {"torch.reshard_after_forward", "reshard"},
      {"torch.set_modules_to_forward_prefetch", "prefetch"}};
  std::string text;
  const auto offload = [&](std::string_view key, std::string_view what) {
    const std::string* value =
        value_of(c, std::string("deepspeed.zero_optimization.") + std::string(key));
    if (value == nullptr || value->find("none") != std::string::npos) return;
    text += fmt::format("{}{} on {}", text.empty() ? "" : ", ", what,
                        value->find("nvme") != std::string::npos ? "nvme" : "host");
  };
  offload("offload_optimizer", "optimizer");
  offload("offload_param", "parameters");
  for (const auto& [key, name] : names)
    if (const std::string* value = value_of(c, key))
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, *value);
  return text;
}

std::string value_or_dash(const Candidate& c, std::string_view key) {
  const std::string* value = value_of(c, key);
  return value == nullptr ? "–" : *value;
}

std::string accumulation(const Candidate& c) {
  const std::string* steps = value_of(c, "deepspeed.gradient_accumulation_steps");
  return steps == nullptr || *steps == "1" ? "1 accumulation step" : *steps + " accumulation steps";
}

std::string configuration(const Candidate& c) {
  const bool again = value_or_dash(c, "run.activation_checkpointing") == "true";
  const std::string more = extras(c);
  return fmt::format(
      "stage {} under the schedule {}, micro-batch {} with {}, {} "
      "recomputation{}{}",
      c.stage, to_string(c.schedule), value_or_dash(c, "deepspeed.train_micro_batch_size_per_gpu"),
      accumulation(c), again ? "with" : "without", more.empty() ? "" : ", ", more);
}

std::string crossing_text(const Advice& a, const Crossing& c) {
  const Candidate& other = a.candidates[c.candidate];
  const bool between = a.question.ranks > a.question.ranks_per_node;
  return fmt::format(" {} {:.3g} GB/s per {}, stage {} is the better choice.",
                     c.below ? "Below" : "Above", c.node_bytes_per_s * 1e-9,
                     between ? "node" : "link", other.stage);
}

}  // namespace

std::string verdict(const Advice& a) {
  const Candidate& best = a.candidates.front();
  const AdviseCase& q = a.question;
  std::string text = fmt::format(
      "Use {}. On {} of {} this trains {:.4g} tokens per second, with steps of {} (9 of 10 within "
      "{} to "
      "{})",
      configuration(best), plural(q.ranks, "rank"), q.machine->name, best.tokens_per_s,
      duration(best.step_s), duration(a.best.step_s_low), duration(a.best.step_s_high));
  if (q.budgets[Tier::device])
    text +=
        fmt::format(", and takes {} of {} of device memory per rank",
                    human_bytes(best.bytes[Tier::device]), human_bytes(*q.budgets[Tier::device]));
  text += '.';
  for (std::size_t i = 1; i < a.best_of_stage.size(); ++i) {
    const Candidate& other = a.best_of_stage[i];
    text += fmt::format(" The best of stage {} is {:.1f} % slower and takes {}.", other.stage,
                        100 * (1 - other.tokens_per_s / best.tokens_per_s),
                        human_bytes(other.bytes[Tier::device]));
  }
  for (int stage = 0; stage <= 3; ++stage) {
    const auto has_it = [&](const Candidate& c) { return c.stage == stage; };
    if (std::any_of(a.best_of_stage.begin(), a.best_of_stage.end(), has_it)) continue;
    const bool lacks_memory = std::any_of(a.refused.begin(), a.refused.end(), [&](const auto& c) {
      return has_it(c) && c.missing_bytes > 0;
    });
    text += fmt::format(" Stage {} {}.", stage,
                        lacks_memory ? "does not fit" : "is refused with the rest of the deck");
  }
  text += fmt::format(" The step is limited by {}", a.best.limited_by());
  if (!a.best.sensitivities.empty() && a.best.sensitivities.front().gain > 0.001)
    text += fmt::format(": 10 % more of it makes a step {:.1f} % shorter",
                        100 * a.best.sensitivities.front().gain);
  text += '.';
  const double rate = network_rate(*q.machine, q.ranks, q.ranks_per_node);
  if (q.ranks > 1 && rate > 0 && a.best_of_stage.size() > 1) {
    if (a.crossings.empty())
      text += fmt::format(
          " The answer is the same from 1/64 to 16 times the {:.4g} GB/s of this network.",
          rate * 1e-9);
    for (const Crossing& c : a.crossings) text += crossing_text(a, c);
  }
  return text;
}

std::string advice_text(const Advice& a, std::size_t top) {
  std::string text = verdict(a);
  // Lines of a readable length.
  std::size_t line = 0, blank = std::string::npos;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') blank = i;
    if (i - line > 98 && blank != std::string::npos && blank > line)
      text[blank] = '\n', line = blank + 1;
  }
  text += fmt::format("\n\n{:>5} {:<10} {:>6} {:>6} {:>9} {:>11} {:>10} {:>11}  {:<18} {}\n",
                      "stage", "schedule", "micro", "accum.", "recompute", "tokens/s", "step",
                      "device", "limited by", "knobs");
  for (std::size_t i = 0; i < std::min(top, a.candidates.size()); ++i) {
    const Candidate& c = a.candidates[i];
    text += fmt::format(
        "{:>5} {:<10} {:>6} {:>6} {:>9} {:>11.4g} {:>10} {:>11}  {:<18} {}\n", c.stage,
        to_string(c.schedule), value_or_dash(c, "deepspeed.train_micro_batch_size_per_gpu"),
        value_or_dash(c, "deepspeed.gradient_accumulation_steps"),
        value_or_dash(c, "run.activation_checkpointing") == "true" ? "yes" : "no", c.tokens_per_s,
        duration(c.step_s), human_bytes(c.bytes[Tier::device]), c.limited_by, extras(c));
  }
  std::map<int, std::pair<std::size_t, const Candidate*>> refused;
  for (const Candidate& c : a.refused) {
    if (c.missing_bytes == 0) continue;
    auto& [count, leanest] = refused[c.stage];
    ++count;
    if (leanest == nullptr || c.missing_bytes < leanest->missing_bytes) leanest = &c;
  }
  text += fmt::format("\n{} candidates, {} fit", a.considered, a.candidates.size());
  for (const auto& [stage, found] : refused)
    text += fmt::format("\n  stage {}: {} do not fit; the leanest: {}", stage, found.first,
                        found.second->refusal);
  return text + '\n';
}

std::string max_model_text(const AdviseCase& q, const std::vector<MaxModel>& models) {
  std::string text = fmt::format(
      "the largest models on {} of {}\n{:>5} {:>24} {:>8} {:>22} {:>12}\n", plural(q.ranks, "rank"),
      q.machine->name, "stage", "by model states alone", "layers", "by the whole plan", "device");
  for (const MaxModel& m : models)
    text += fmt::format("{:>5} {:>22.4g} B {:>8} {:>20.4g} B {:>12}\n", m.stage, m.by_states * 1e-9,
                        m.layers, static_cast<double>(m.parameters) * 1e-9, human_bytes(m.bytes));
  return text +
         "\"By the whole plan\" adds layers of the deck's width until gradients, activations and "
         "buffers "
         "fill the device too.\n";
}

}  // namespace shardmark
