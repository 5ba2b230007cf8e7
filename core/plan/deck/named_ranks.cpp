// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/core.h>

#include <core/error.hpp>
#include <core/plan/deck/named_ranks.hpp>

namespace shardmark {

std::set<int> named_ranks(const std::vector<std::int64_t>& ranks,
                          const std::vector<std::string>& named_hosts,
                          const std::vector<std::string>& hosts, std::string_view section,
                          const std::string& deck) {
  const auto world = static_cast<int>(hosts.size());
  std::set<int> named;
  for (const std::int64_t rank : ranks) {
    if (rank >= world)
      throw DeckError(fmt::format("{}: {}.ranks = {}: must be a rank of this run, from 0 to {}",
                                  deck, section, rank, world - 1));
    named.insert(static_cast<int>(rank));
  }
  for (const std::string& host : named_hosts) {
    if (std::ranges::find(hosts, host) == hosts.end())
      throw DeckError(fmt::format(
          "{}: {}.hosts = \"{}\": no rank runs there: name a host of this run, for example \"{}\"",
          deck, section, host, hosts.front()));
    for (int r = 0; r < world; ++r)
      if (hosts[static_cast<std::size_t>(r)] == host) named.insert(r);
  }
  return named;
}

}  // namespace shardmark
