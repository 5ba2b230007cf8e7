// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <core/plan/build/legal_program.hpp>
#include <core/plan/interpret/check.hpp>

namespace shardmark {

std::vector<int> ranks_to_check(int world, int rank, std::int64_t events) {
  constexpr std::int64_t very_many = 250'000;
  const int most = events > very_many ? 4 : 16, spread = events > very_many ? 3 : 8;
  std::vector<int> ranks;
  if (world <= most) {
    for (int r = 0; r < world; ++r) ranks.push_back(r);
    return ranks;
  }
  for (int i = 0; i < spread; ++i)
    ranks.push_back(static_cast<int>(static_cast<std::int64_t>(world - 1) * i / (spread - 1)));
  ranks.push_back(rank);
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

std::vector<int> ranks_to_check(const Program& program) {
  std::int64_t events = 0;
  for (const Segment& s : program.segments) events += static_cast<std::int64_t>(s.events.size());
  return ranks_to_check(program.world, program.rank, events);
}

Program build_legal_program(const Deck& deck, const Batch& batch, int world, int rank,
                            const Profile& profile) {
  Program program = build_program(deck, batch, world, rank, profile);
  require_legal(check(program));
  require_legal(check_ranks(ranks_to_check(program), [&](int r) {
    return build_program(deck, batch, world, r, profile, Extent::collectives);
  }));
  return program;
}

}  // namespace shardmark
