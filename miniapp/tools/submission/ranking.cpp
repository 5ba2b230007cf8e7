// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>
#include <tuple>

#include <fmt/core.h>

#include <core/percentile.hpp>
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

void add_new(std::vector<std::string>& list, const std::string& text) {
  if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(text);
}

// Behind the figure with which some reasons begin, such as the seconds of a run that is too short.
std::string_view behind_figure(std::string_view reason) {
  return reason.substr(std::min(reason.find_first_not_of("0123456789."), reason.size()));
}

// A reason that differs from one of the list in that figure alone is the same, and the first stays.
void add_reason(std::vector<std::string>& list, const std::string& reason) {
  const auto same = [&](const std::string& r) { return behind_figure(r) == behind_figure(reason); };
  if (std::ranges::none_of(list, same)) list.push_back(reason);
}

std::vector<RankedEntry> entries_of(const std::vector<Ranked>& runs) {
  std::vector<RankedEntry> entries;
  std::vector<const VerifiedRun*> first;  // of each entry
  for (const Ranked& r : runs) {
    std::size_t i = 0;
    while (i < entries.size() &&
           !(entries[i].file == r.file && entries[i].work == work_of(r.run) &&
             entries[i].official == r.run.official && same_deck(r.run.used, first[i]->used)))
      ++i;
    if (i == entries.size()) {
      RankedEntry& entry = entries.emplace_back();
      entry.work = work_of(r.run);
      entry.organisation = r.organisation, entry.system = r.system;
      entry.processor = r.processor, entry.file = r.file;
      entry.nodes = r.run.nodes, entry.official = r.run.official;
      first.push_back(&r.run);
    }
    RankedEntry& entry = entries[i];
    entry.date = std::max(entry.date, r.run.date);
    add_new(entry.deck_hashes, r.run.deck_hash);
    for (const std::string& reason : r.run.reasons) add_reason(entry.reasons, reason);
    entry.values.push_back(r.run.fom);
    if (r.run.read_gib_per_s) entry.reads.push_back(*r.run.read_gib_per_s);
  }
  for (RankedEntry& entry : entries)
    for (auto* list : {&entry.values, &entry.reads}) std::sort(list->begin(), list->end());
  return entries;
}

bool before(const RankedEntry& a, const RankedEntry& b) {
  return std::tuple(a.work, !a.official, -a.median()) <
         std::tuple(b.work, !b.official, -b.median());
}

}  // namespace

double RankedEntry::median() const {
  return shardmark::median(values);
}

std::optional<double> RankedEntry::median_read() const {
  if (reads.empty()) return std::nullopt;
  return shardmark::median(reads);
}

std::string RankedEntry::why_not() const {
  if (!official) return "unofficial";
  if (values.size() < std::size_t{OfficialRules::runs})
    return fmt::format("{} of {} runs", values.size(), OfficialRules::runs);
  return {};
}

Ranking rank(const std::vector<Ranked>& runs) {
  Ranking ranking;
  for (RankedEntry& entry : entries_of(runs))
    (entry.why_not().empty() ? ranking.ranked : ranking.unranked).push_back(std::move(entry));
  std::ranges::stable_sort(ranking.ranked, before);
  std::ranges::stable_sort(ranking.unranked, before);
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
