// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <core/percentile.hpp>
#include <miniapp/measure/stragglers.hpp>
#include <miniapp/measure/timings.hpp>

namespace shardmark {
namespace {

RankSteps summary(const std::vector<double>& own_s) {
  return {.p50_s = percentile(own_s, 0.5),
          .p99_s = percentile(own_s, 0.99),
          .worst_s = percentile(own_s, 1)};
}

}  // namespace

PerturbResult lost_time(const std::vector<double>& seconds, const std::vector<double>& injected_s,
                        const std::vector<double>& written_bytes) {
  PerturbResult result;
  const auto slow = [&](std::size_t s) {
    return injected_s[s] > 0 || (s < written_bytes.size() && written_bytes[s] > 0);
  };
  std::vector<double> calm;
  for (std::size_t s = 0; s < seconds.size(); ++s)
    if (!slow(s)) calm.push_back(seconds[s]);
  const double usual = percentile(calm, 0.5);
  for (std::size_t s = 0; s < seconds.size(); ++s) {
    if (!slow(s)) continue;
    ++result.slow_steps;
    result.injected_s += injected_s[s];
    result.lost_s += seconds[s] - usual;
    if (s < written_bytes.size()) result.written_s += seconds[s];
  }
  result.comparable = !calm.empty() && result.slow_steps > 0;
  if (!result.comparable) result.lost_s = 0;
  return result;
}

std::optional<CongestionResult> congestion_result(const Deck& deck, const std::vector<int>& ranks,
                                                  const RunRecord& record, Peers& peers) {
  if (!deck.congestion.given) return {};
  std::vector<double> moved{static_cast<double>(record.emulated.received_bytes)};
  peers.sum(moved);
  return CongestionResult{.ranks = ranks,
                          .description = describe(deck.congestion),
                          .message_bytes = deck.congestion.message_bytes(),
                          .flows = flows(deck.congestion.pattern, ranks).size(),
                          .moved_bytes = moved[0],
                          .seconds = peers.max(record.timed_s)};
}

void fill_stragglers(const RunRecord& record, const std::vector<int>& slowed, Peers& peers,
                     Result& result) {
  StragglerResult& stragglers = result.stragglers;
  stragglers.ranks.resize(static_cast<std::size_t>(peers.size()));
  std::vector<double> own_s;
  for (const LaneTimes& t : record.step_times) own_s.push_back(static_cast<double>(t.own()) * 1e-9);
  const auto all = peers.gather(summary(record.timed_part(own_s)));
  for (std::size_t r = 0; r < all.size(); ++r) {
    const double caused_s = stragglers.ranks[r].waiting_caused_s;
    stragglers.ranks[r] = all[r];
    stragglers.ranks[r].waiting_caused_s = caused_s;
  }
  const std::vector<double> seconds = timed_seconds(record, result.rows);
  stragglers.worst_step_s = percentile(seconds, 1);
  if (slowed.empty()) return;
  std::vector<double> injected_s = record.timed_part(record.injected_seconds);
  peers.max(injected_s);
  std::vector<double> written = record.timed_part(record.memory_traffic);
  peers.sum(written);
  stragglers.perturb = lost_time(seconds, injected_s, written);
  stragglers.perturb->ranks = slowed;
  for (const double bytes : written) stragglers.perturb->written_bytes += bytes;
}

}  // namespace shardmark
