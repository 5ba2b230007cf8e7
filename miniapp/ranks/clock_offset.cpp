// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include <miniapp/ranks/clock_offset.hpp>

namespace shardmark {

std::int64_t clock_offset_ns(Peers& peers, const std::string& host,
                             const std::function<std::int64_t()>& clock_ns) {
  const auto hosts = peers.gather(host);
  const bool one_clock = std::all_of(hosts.begin(), hosts.end(),
                                     [&](const std::string& h) { return h == hosts.front(); });
  if (one_clock) return 0;
  constexpr int rounds = 15;
  std::vector<std::int64_t> mine;
  for (int i = 0; i < rounds; ++i) {
    peers.barrier();
    mine.push_back(clock_ns());
  }
  const auto all = peers.gather(mine);
  if (host == hosts.front()) return 0;
  std::vector<std::int64_t> offsets;
  for (int i = 0; i < rounds; ++i) offsets.push_back(all[static_cast<std::size_t>(i)] - mine[i]);
  std::nth_element(offsets.begin(), offsets.begin() + rounds / 2, offsets.end());
  return offsets[rounds / 2];
}

}  // namespace shardmark
