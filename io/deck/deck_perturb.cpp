// SPDX-License-Identifier: Apache-2.0
// The sections `perturb` and `congestion` of a deck.
#include <io/deck/deck_keys.hpp>
#include <io/deck/deck_sections.hpp>

namespace shardmark {
namespace {

void read_ranks(KeyReader& reader, std::vector<std::int64_t>& ranks) {
  const Json* list = reader.any("ranks");
  if (list == nullptr) return;
  for (const Json& rank : list->is_array() ? *list : Json::array({*list})) {
    const auto number = as_integer(rank);
    if (!number || *number < 0 || *number >= most_ranks)
      reader.origin().refuse(reader.key("ranks"), rank,
                             "must be a rank or an array of ranks, which count from 0");
    ranks.push_back(*number);
  }
}

void read_hosts(KeyReader& reader, std::vector<std::string>& hosts) {
  const Json* list = reader.any("hosts");
  if (list == nullptr) return;
  for (const Json& host : list->is_array() ? *list : Json::array({*list})) {
    if (!host.is_string())
      reader.origin().refuse(reader.key("hosts"), host, "must be the name of a host or an array");
    hosts.push_back(host.get<std::string>());
  }
}

}  // namespace

void read_perturb(KeyReader reader, Deck& deck) {
  PerturbSpec& perturb = deck.perturb;
  perturb.seed = deck.run.seed;
  reader.read(deck_keys("perturb"), deck);
  read_ranks(reader, perturb.ranks);
  read_hosts(reader, perturb.hosts);
  reader.finish();
  Origin& origin = reader.origin();
  if (perturb.memory.gbps > 0 && perturb.memory.share > 0)
    origin.refuse("perturb.memory_share", perturb.memory.share,
                  "stands beside perturb.memory_gbps: give one of both");
  if (perturb.ranks.empty() && perturb.hosts.empty() && perturb.random == 0)
    origin.missing("perturb.ranks",
                   "say who is made slower: ranks, hosts, or random for a number "
                   "of ranks that are drawn");
  if (!perturb.active())
    origin.note(FindingKind::no_effect, "perturb",
                "nobody is made slower: give a factor above 1, or pause_ms, memory_gbps or "
                "memory_share above 0");
  if (perturb.tail && perturb.pause_ms == 0)
    origin.note(FindingKind::no_effect, "perturb.tail", "there are no pauses: give pause_ms");
}

void read_congestion(KeyReader reader, Deck& deck) {
  deck.congestion.given = true;
  reader.read(deck_keys("congestion"), deck);
  read_ranks(reader, deck.congestion.ranks);
  read_hosts(reader, deck.congestion.hosts);
  reader.finish();
}

}  // namespace shardmark
