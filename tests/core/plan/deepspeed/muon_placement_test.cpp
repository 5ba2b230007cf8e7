// SPDX-License-Identifier: Apache-2.0
// Rule: Muon's updates are made by the ranks, and at the moment of the step, that the table of
// placements names, and every rank ends with what it must keep.
#include <map>
#include <set>
#include <utility>

#include <gtest/gtest.h>

#include <core/plan/deepspeed/muon.hpp>
#include <core/plan/partition/flat_groups.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::test::muon_placement_test {
namespace {

constexpr int world = 3;

struct Case {
  const char* name;
  int stage;
  bool offloads, bf16_optimizer;
  MuonMaker maker;
  MuonMoment moment;
};

const Case cases[] = {
    {"stage 1", 1, false, false, MuonMaker::holders, MuonMoment::reduced},
    {"stage 2", 2, false, false, MuonMaker::holders, MuonMoment::reduced},
    {"BF16_Optimizer", 1, false, true, MuonMaker::holders, MuonMoment::after_norm},
    {"stage 1, host", 1, true, false, MuonMaker::every, MuonMoment::before_norm},
    {"stage 2, host", 2, true, false, MuonMaker::every, MuonMoment::before_norm},
    {"stage 3", 3, false, false, MuonMaker::dealt, MuonMoment::before_norm},
    {"stage 3, host", 3, true, false, MuonMaker::every, MuonMoment::before_norm},
};

Deck deck_of(const Case& c) {
  Deck d = deepspeed_deck(c.stage);
  d.zero.optimizer.type = Optimizer::muon;
  d.zero.knobs.reduce_scatter = c.stage != 3;
  d.zero.offload_optimizer.enabled = c.offloads;
  PrecisionSpec& p = d.zero.precision;
  p.model = p.comm = p.grad_accum = Dtype::bf16;
  if (c.bf16_optimizer) p.grad_accum = Dtype::fp32;
  return d;
}

// The steady step: the kernels in order, and for each matrix how often its update is made.
struct Made {
  std::vector<Kernel> kernels;
  std::vector<SegmentKind> where;
  std::map<int, int> times;
};

Made made_by(const Case& c, int rank) {
  const Program p = program(deck_of(c), world, rank);
  Made made;
  for (int s : segments_of(p.steps[step_path(p, false).back()], false)) {
    const Segment& segment = p.segments[s];
    for (const Event& e : segment.events) {
      if (e.op != Op::compute) continue;
      made.kernels.push_back(e.kernel);
      made.where.push_back(segment.kind);
      if (e.kernel == Kernel::orthogonalize) ++made.times[p.param_ids[e.params.first]];
    }
  }
  return made;
}

std::set<int> matrices_of(const Case& c) {
  const Program p = program(deck_of(c), world, 0);
  std::set<int> ids;
  for (int id = 0; id < static_cast<int>(p.model.params.size()); ++id)
    if (p.model.params[id].hidden_matrix) ids.insert(id);
  return ids;
}

// Ranks whose partition of the flat groups has a part of a matrix.
std::set<int> holders_of(const Case& c, int id) {
  const Deck d = deck_of(c);
  const Program p = program(d, world, 0);
  const FlatGroups groups(p.model, d.zero.knobs, dtype_bytes(d.zero.precision.model), world);
  std::set<int> ranks;
  for (const OwnedSlice& slice : groups.owners(id)) ranks.insert(slice.rank);
  return ranks;
}

TEST(MuonPlacement, TheTableSaysWhoMakesUpdatesAndWhen) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const MuonPlacement placement = muon_placement(c.stage, c.offloads, c.bf16_optimizer);
    EXPECT_EQ(placement.maker, c.maker);
    EXPECT_EQ(placement.moment, c.moment);
  }
}

TEST(MuonPlacement, UpdatesAreMadeByTheirMakersOnce) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    std::vector<Made> by_rank;
    for (int rank = 0; rank < world; ++rank) by_rank.push_back(made_by(c, rank));
    for (const int id : matrices_of(c)) {
      std::set<int> makers;
      for (int rank = 0; rank < world; ++rank) {
        const auto& times = by_rank[static_cast<std::size_t>(rank)].times;
        if (!times.contains(id)) continue;
        makers.insert(rank);
        EXPECT_EQ(times.at(id), 1);
      }
      if (c.maker == MuonMaker::holders) {
        EXPECT_EQ(makers, holders_of(c, id));
      } else {
        EXPECT_EQ(makers.size(), c.maker == MuonMaker::every ? std::size_t{world} : 1);
      }
    }
  }
}

// BF16_Optimizer's ranks read what they are sent of the momentum part by part: each element once,
// in the order of the ranks that sent it.
TEST(MuonPlacement, EachPartOfTheMomentumThatIsReceivedIsReadOnce) {
  std::size_t most_parts = 0;
  for (int ranks = 2; ranks <= 6; ++ranks)
    for (int rank = 0; rank < ranks; ++rank) {
      SCOPED_TRACE(testing::Message() << rank << " of " << ranks);
      const Program p = program(deck_of(cases[2]), ranks, rank);
      std::map<std::int64_t, std::int64_t> parts;  // by the first element
      std::int64_t received = 0;
      for (int s : segments_of(p.steps[step_path(p, false).back()], false))
        for (const Event& e : p.segments[s].events)
          for (int i = e.operands.first; i < e.operands.first + e.operands.count; ++i) {
            const Operand& o = p.operands[i];
            const Slot& slot = p.slots[o.slot];
            if (!slot.name.starts_with("muon_received")) continue;
            received = slot.elems;
            const bool read = o.reads && !o.writes;
            EXPECT_TRUE(!read || parts.emplace(o.offset, o.elems).second);
          }
      std::int64_t end = 0;
      for (const auto& [first, elems] : parts) EXPECT_EQ(first, std::exchange(end, first + elems));
      EXPECT_EQ(end, received);
      most_parts = std::max(most_parts, parts.size());
    }
  EXPECT_GT(most_parts, 1U);
}

TEST(MuonPlacement, UpdatesAreMadeAtTheirMoment) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const Made made = made_by(c, 0);
    std::size_t clip = 0, first = made.kernels.size(), last = 0;
    for (std::size_t i = 0; i < made.kernels.size(); ++i) {
      if (made.kernels[i] == Kernel::clip) clip = i;
      if (made.kernels[i] != Kernel::orthogonalize) continue;
      first = std::min(first, i), last = i;
    }
    ASSERT_LT(first, made.kernels.size());
    EXPECT_EQ(made.where[first] == SegmentKind::update, c.moment != MuonMoment::reduced);
    EXPECT_EQ(first > clip, c.moment == MuonMoment::after_norm);
    EXPECT_EQ(last < clip, c.moment != MuonMoment::after_norm);
  }
}

}  // namespace
}  // namespace shardmark::test::muon_placement_test
