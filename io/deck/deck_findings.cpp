// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/core.h>

#include <core/plan/write/rank_groups.hpp>
#include <core/printable.hpp>
#include <io/deck/deck_findings.hpp>
#include <io/deepspeed/config.hpp>

namespace shardmark {
namespace {

constexpr auto headings = enum_names<FindingKind>(
    "Warnings", "Assumed, because nothing states it",
    "What DeepSpeed or PEFT does not know and ignores", "Keys without effect here",
    "What each \"auto\" became", "Inferred", "Defaults taken");

// A key that changes nothing says so for all below it. The section of a schedule that the deck does
// not have has no defaults.
void say_once(std::vector<Finding>& findings, const Deck& deck) {
  std::vector<std::string> mute;
  for (const Finding& f : findings)
    if (f.kind == FindingKind::no_effect) mute.push_back(f.key);
  const bool has_torch = traits(deck.run.schedule).follows_torch;
  std::erase_if(findings, [&](const Finding& f) {
    if (f.kind == FindingKind::defaulted) return !has_torch && within(f.key, "torch");
    return f.kind == FindingKind::no_effect &&
           std::any_of(mute.begin(), mute.end(),
                       [&](const std::string& key) { return f.key != key && within(f.key, key); });
  });
}

}  // namespace

std::vector<Finding> check_deck(const LoadedDeck& loaded, std::optional<int> ranks) {
  std::vector<Finding> findings = loaded.findings;
  say_once(findings, loaded.deck);
  if (ranks) {
    const ZeroSpec& zero = loaded.deck.zero;
    require_groups(loaded.deck, *ranks);
    const Batch batch = infer_batch(loaded.deck, *ranks);
    const auto derive = [&](const char* name, bool given, std::int64_t value) {
      if (!given)
        findings.push_back({FindingKind::derived, join_key("deepspeed", name),
                            fmt::format("{} on {} ranks", value, *ranks)});
    };
    derive("train_batch_size", zero.train_batch_size.has_value(), batch.global);
    derive("train_micro_batch_size_per_gpu", zero.micro_batch_size.has_value(), batch.micro);
    derive("gradient_accumulation_steps", zero.accumulation_steps.has_value(), batch.accumulation);
  }
  std::ranges::stable_sort(findings, {}, &Finding::kind);
  return findings;
}

std::string note_lines(const Deck& deck) {
  std::string text;
  for (const std::string& sentence : deck.assumptions)
    text += fmt::format("note: {}\n", printable(sentence));
  return text;
}

std::string format_findings(const LoadedDeck& loaded, const std::vector<Finding>& findings) {
  std::string text =
      fmt::format("{}: sound (stage {}, schedule {}, hash {})\n", printable(loaded.deck.path),
                  loaded.deck.zero.stage, to_string(loaded.deck.run.schedule), loaded.hash);
  for (std::size_t i = 0; i < findings.size(); ++i) {
    const Finding& f = findings[i];
    if (i == 0 || f.kind != findings[i - 1].kind) text += fmt::format("{}\n", headings[f.kind]);
    const bool has_value = f.kind == FindingKind::assumed || f.kind >= FindingKind::filled;
    const char* sign = has_value ? " =" : ":";
    text += fmt::format("  {}{} {}\n", printable(f.key), sign, printable(f.text));
  }
  return text;
}

}  // namespace shardmark
