// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/core.h>

#include <core/text.hpp>
#include <miniapp/rules/official_rules.hpp>
#include <miniapp/tools/submission/ranking.hpp>

namespace shardmark {
namespace {

RankedWork work_of(const VerifiedRun& run) {
  return {.deck = run.name,
          .figure = run.fom_name,
          .division = run.division.division,
          .ranks = run.ranks,
          .parameters = run.parameters,
          .tokens_per_step = run.tokens_per_step};
}

// Runs of one archive are repetitions if they have the same deck, to the last key.
std::vector<RankedEntry> entries_of(const std::vector<Ranked>& runs) {
  using Key = std::tuple<std::string, std::string, RankedWork, bool>;
  std::map<Key, std::size_t> index;
  std::vector<RankedEntry> entries;
  for (const Ranked& r : runs) {
    const auto [it, is_new] = index.try_emplace(
        Key{r.file, r.run.deck_hash, work_of(r.run), r.run.official}, entries.size());
    if (is_new)
      entries.push_back({.work = work_of(r.run),
                         .organisation = r.organisation,
                         .system = r.system,
                         .processor = r.processor,
                         .file = r.file,
                         .date = {},
                         .deck_hash = r.run.deck_hash,
                         .nodes = r.run.nodes,
                         .official = r.run.official,
                         .values = {}});
    RankedEntry& entry = entries[it->second];
    entry.date = std::max(entry.date, r.run.date);
    entry.values.push_back(r.run.fom);
  }
  for (RankedEntry& entry : entries) std::sort(entry.values.begin(), entry.values.end());
  return entries;
}

bool before(const RankedEntry& a, const RankedEntry& b) {
  return std::tuple(a.work, !a.official, -a.median()) <
         std::tuple(b.work, !b.official, -b.median());
}

}  // namespace

double RankedEntry::median() const {
  if (values.empty()) return 0;
  const std::size_t n = values.size();
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

std::string RankedEntry::why_not() const {
  if (!official) return "unofficial";
  if (work.division == Division::unranked) return "unranked";
  if (values.size() < std::size_t{OfficialRules::runs})
    return fmt::format("{} of {} runs", values.size(), OfficialRules::runs);
  return {};
}

Ranking rank(const std::vector<Ranked>& runs) {
  Ranking ranking;
  for (RankedEntry& entry : entries_of(runs))
    (entry.why_not().empty() ? ranking.ranked : ranking.unranked).push_back(std::move(entry));
  std::stable_sort(ranking.ranked.begin(), ranking.ranked.end(), before);
  std::stable_sort(ranking.unranked.begin(), ranking.unranked.end(), before);
  const RankedEntry* last = nullptr;
  std::size_t number = 0;
  for (RankedEntry& entry : ranking.ranked) {
    const bool same = last != nullptr && last->work == entry.work;
    number = same ? number + 1 : 1;
    // Equal medians share a place.
    entry.place = same && last->median() == entry.median() ? last->place : number;
    last = &entry;
  }
  return ranking;
}

std::string unit_of(const std::string& figure) {
  if (figure == "tokens_per_s") return "tokens/s";
  if (figure == "checkpoint_write_gib_per_s") return "GiB/s written";
  return figure;
}

std::string shown_figure(double value) {
  return value >= 1000 ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value);
}

std::string describe(const RankedWork& work) {
  return fmt::format("{}, {}, {}", work.deck, to_string(work.division), plural(work.ranks, "rank"));
}

std::string shown_parameters(std::int64_t parameters) {
  const auto count = static_cast<double>(parameters);
  return count >= 1e9 ? fmt::format("{:.3g} billion", count * 1e-9)
                      : fmt::format("{:.3g} million", count * 1e-6);
}

std::string describe_size(const RankedWork& work) {
  const std::string size = shown_parameters(work.parameters) + " parameters";
  if (work.figure != "tokens_per_s") return size;  // storage: no step counts
  return fmt::format("{}, {} tokens per step", size, work.tokens_per_step);
}

}  // namespace shardmark
