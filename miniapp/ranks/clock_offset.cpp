// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include <miniapp/ranks/clock_offset.hpp>

namespace shardmark {

std::int64_t clock_offset_ns(Peers& peers, const std::string& host,
                             const std::function<std::int64_t()>& clock_ns) {
  const auto hosts = peers.gather(host);
  const bool one_clock =
      std::ranges::all_of(hosts, [&](const std::string& h) { return h == hosts.front(); });
  if (one_clock) return 0;
  constexpr int rounds = 15;
  std::vector<std::int64_t> mine;
  for (int i = 0; i < rounds; ++i) {
    mine.push_back(clock_ns());
    peers.barrier();
    mine.push_back(clock_ns());
  }
  const auto all = peers.gather(mine);
  if (host == hosts.front()) return 0;
  // No rank leaves a barrier sooner than a message of the other one takes. Delays of all kinds make
  // it later.
  std::int64_t there_ns = INT64_MAX, back_ns = INT64_MAX;
  for (int i = 0; i < rounds; ++i) {
    const std::int64_t *first = &all[2 * i], *own = &mine[2 * i];
    there_ns = std::min(there_ns, first[1] - own[0]);
    back_ns = std::min(back_ns, own[1] - first[0]);
  }
  return (there_ns - back_ns) / 2;
}

std::vector<double> spans(const std::vector<double>& starts_s, const std::vector<double>& ends_s,
                          Peers& group) {
  std::vector<double> last = starts_s;
  last.insert(last.end(), ends_s.begin(), ends_s.end());
  group.max(last);
  std::vector<double> seconds(starts_s.size());
  for (std::size_t i = 0; i < seconds.size(); ++i) seconds[i] = last[seconds.size() + i] - last[i];
  return seconds;
}

}  // namespace shardmark
