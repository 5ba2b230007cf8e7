// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>

#include <fmt/core.h>

#include <core/printable.hpp>
#include <core/text.hpp>
#include <miniapp/report/report_stragglers.hpp>

namespace shardmark {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::size_t most_rows = 16;

std::vector<std::size_t> by_waiting_caused(const std::vector<RankSteps>& ranks) {
  std::vector<std::size_t> order(ranks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return ranks[a].waiting_caused_s > ranks[b].waiting_caused_s;
  });
  return order;
}

std::string perturb_line(const PerturbResult& p) {
  const std::string who = fmt::format("  perturbed: {} in {}", plural(std::ssize(p.ranks), "rank"),
                                      plural(p.slow_steps, "timed step"));
  const auto amplification = p.amplification();
  if (!amplification && p.comparable)
    return fmt::format("{}: the run lost {:.1f} ms\n", who, p.lost_s * 1e3);
  if (!amplification)
    return who + "; no other steps to compare with: set perturb.every to 2 or more\n";
  return fmt::format("{}: the slowest lost {:.1f} ms, the run {:.1f} ms: amplification {:.2f}\n",
                     who, p.injected_s * 1e3, p.lost_s * 1e3, *amplification);
}

double written_rate(const PerturbResult& p) {
  return p.written_s > 0 ? p.written_bytes / p.written_s : 0;
}

double moved_rate(const CongestionResult& c) {
  return c.seconds > 0 ? c.moved_bytes / c.seconds : 0;
}

std::string written_line(const PerturbResult& p) {
  if (p.written_bytes <= 0) return {};
  return fmt::format("  beside them, {} were written to memory, at {:.2f} GB/s in these steps\n",
                     human_bytes(static_cast<std::int64_t>(p.written_bytes)),
                     written_rate(p) * 1e-9);
}

std::string congestion_line(const CongestionResult& c) {
  return fmt::format("  congestion: {} among {}: {} in the timed steps, {:.3f} GB/s\n",
                     c.description, plural(std::ssize(c.ranks), "rank"),
                     human_bytes(static_cast<std::int64_t>(c.moved_bytes)), moved_rate(c) * 1e-9);
}

OrderedJson congestion_json(const CongestionResult& c) {
  return {{"traffic", c.description},
          {"ranks", c.ranks},
          {"flows", c.flows},
          {"message_bytes", c.message_bytes},
          {"moved_bytes", c.moved_bytes},
          {"gb_per_s", moved_rate(c) * 1e-9}};
}

// The steps of a rank, or of all ranks of a host, named by `key`.
template<class Name>
OrderedJson steps_json(const char* key, const Name& name, const RankSteps& s) {
  return {{key, name},
          {"own_seconds", {{"p50", s.p50_s}, {"p99", s.p99_s}, {"worst", s.worst_s}}},
          {"waiting_caused_per_step", s.waiting_caused_s}};
}

OrderedJson rank_steps(const Result& r) {
  OrderedJson list = OrderedJson::array();
  for (const RankSteps& rank : r.stragglers.ranks)
    list.push_back(steps_json("rank", list.size(), rank));
  return list;
}

// The slowest rank of each host, and the waiting that its ranks cause together.
OrderedJson host_steps(const Result& r) {
  std::map<std::string, RankSteps> hosts;
  for (std::size_t i = 0; i < std::min(r.ranks.size(), r.stragglers.ranks.size()); ++i)
    hosts[r.ranks[i].host].include(r.stragglers.ranks[i]);
  OrderedJson list = OrderedJson::array();
  for (const auto& [name, host] : hosts) list.push_back(steps_json("host", name, host));
  return list;
}

OrderedJson perturb_json(const PerturbResult& p) {
  const auto amplification = p.amplification();
  OrderedJson o{
      {"ranks", p.ranks},
      {"slow_steps", p.slow_steps},
      {"injected_seconds", p.injected_s},
      {"lost_seconds", p.comparable ? OrderedJson(p.lost_s) : OrderedJson(nullptr)},
      {"amplification", amplification ? OrderedJson(*amplification) : OrderedJson(nullptr)}};
  if (p.written_bytes > 0) {
    o["memory_bytes"] = p.written_bytes;
    o["memory_gb_per_s"] = written_rate(p) * 1e-9;
  }
  return o;
}

}  // namespace

std::string stragglers_table(const Result& r) {
  const StragglerResult& s = r.stragglers;
  const bool several = std::ranges::any_of(
      r.ranks, [&](const RankInfo& rank) { return rank.host != r.ranks[0].host; });
  if (s.ranks.size() != r.ranks.size() || (!several && !s.perturb && !s.congestion)) return {};
  std::string text;
  auto out = std::back_inserter(text);
  fmt::format_to(out,
                 "\nRanks, ms per timed step: own time, and how long the others together wait for "
                 "each\n  {:<8}{:<18}{:>9}{:>11}{:>11}{:>14}\n",
                 "rank", "host", "p50", "p99", "worst", "waiting");
  const std::vector<std::size_t> order = by_waiting_caused(s.ranks);
  for (std::size_t i = 0; i < std::min(order.size(), most_rows); ++i) {
    const RankSteps& rank = s.ranks[order[i]];
    fmt::format_to(out, "  {:<8}{:<18}{:>9.2f}{:>11.2f}{:>11.2f}{:>14.2f}\n", order[i],
                   printable(r.ranks[order[i]].host), rank.p50_s * 1e3, rank.p99_s * 1e3,
                   rank.worst_s * 1e3, rank.waiting_caused_s * 1e3);
  }
  if (order.size() > most_rows)
    fmt::format_to(out, "  … and {} with less waiting caused\n",
                   plural(static_cast<std::int64_t>(order.size() - most_rows), "rank"));
  if (s.perturb) text += perturb_line(*s.perturb) + written_line(*s.perturb);
  if (s.congestion) text += congestion_line(*s.congestion);
  return text;
}

nlohmann::ordered_json stragglers_json(const Result& r) {
  OrderedJson o;
  o["rank_steps"] = rank_steps(r);
  o["host_steps"] = host_steps(r);
  if (r.stragglers.perturb) o["perturb"] = perturb_json(*r.stragglers.perturb);
  if (r.stragglers.congestion) o["congestion"] = congestion_json(*r.stragglers.congestion);
  return o;
}

}  // namespace shardmark
