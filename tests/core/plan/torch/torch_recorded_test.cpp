// SPDX-License-Identifier: Apache-2.0
// Rule: a plan of the schedule `torch` contains what PyTorch 2.15 was recorded to send: row by row,
// at start-up, in the first three steps, on every rank, in the same groups. Its memory at the end
// of each phase is what PyTorch's storages add up to, to the byte.
#include <functional>
#include <map>

#include <gtest/gtest.h>

#include <core/plan/interpret/check.hpp>
#include <core/plan/interpret/print.hpp>
#include <tests/support/torch_recorded.hpp>

namespace shardmark::test::torch_recorded_test {
namespace {

std::string first_difference(const json& have, const json& want) {
  for (std::size_t i = 0; i < std::max(have.size(), want.size()); ++i) {
    const json a = i < have.size() ? have[i] : json(), b = i < want.size() ? want[i] : json();
    if (a != b) return "row " + std::to_string(i) + ": have " + a.dump() + ", recorded " + b.dump();
  }
  return "";
}

std::vector<int> ranks_of_world(int world) {
  std::vector<int> ranks;
  for (int r = 0; r < world; ++r) ranks.push_back(r);
  return ranks;
}

std::string ranks_of(const Program& p, int group) {
  std::vector<int> ranks = p.groups[group].ranks;
  if (ranks.empty()) ranks = ranks_of_world(p.world);
  std::string text;
  for (int r : ranks) text += (text.empty() ? "" : ",") + std::to_string(r);
  return text;
}

// The collectives of a segment in the format of the recordings.
void add_rows(const Program& p, const Segment& s, int micro, json& rows, json& groups) {
  static const std::map<Reduction, std::string> words{
      {Reduction::none, ""}, {Reduction::sum, "sum"}, {Reduction::average, "avg"}};
  for (const Event& e : s.events) {
    if (!is_collective(e.op)) continue;
    std::string phase = e.phase == Phase::init      ? "init"
                        : e.phase == Phase::step    ? "s"
                        : e.phase == Phase::forward ? "f" + std::to_string(micro)
                                                    : "b" + std::to_string(micro);
    const auto elems = [&](int i) { return p.operands[e.operands.first + i].elems; };
    rows.push_back(
        {phase, to_string(e.op), to_string(e.dtype), elems(0), elems(1), words.at(e.reduction)});
    groups.push_back(ranks_of(p, e.group));
  }
}

struct StepRows {
  json rows = json::array(), groups = json::array();
};

StepRows rows_of_step(const Program& p, int number) {
  int at = 0;
  for (int s = 0; s < number; ++s) at = p.steps[at].after_update;
  const Step& step = p.steps[at];
  StepRows all;
  for (std::int64_t g = 0; g < step.micros.size(); ++g)
    add_rows(p, p.segments[step.micros[g]], static_cast<int>(g), all.rows, all.groups);
  for (int segment : {step.boundary, step.update})
    add_rows(p, p.segments[segment], 0, all.rows, all.groups);
  return all;
}

void expect_rows(const TorchRecording& r, const Program& p) {
  for (int number = 0; number < 3; ++number) {
    const std::string step = "step" + std::to_string(number);
    SCOPED_TRACE(step);
    const json recorded = torch_rows(r.raw, step);
    const StepRows have = rows_of_step(p, number);
    EXPECT_EQ(have.rows, recorded) << first_difference(have.rows, recorded);
    if (p.rank != 0) continue;  // the recordings list the groups of rank 0
    json groups = json::array();
    const json& rows = r.raw.at(step).is_string() ? r.raw.at("step0") : r.raw.at(step);
    for (const json& row : rows) groups.push_back(row[5]);
    EXPECT_EQ(have.groups, groups);
  }
  json start = json::array(), startup = json::array(), groups;
  add_rows(p, p.segments[0], 0, start, groups);
  for (json row : r.raw.at("startup")) {
    if (row[0] == "all_gather_list") row[0] = "all_gather";
    startup.push_back({"init", row[0], row[1], row[2], row[3], ""});
  }
  EXPECT_EQ(start, startup);
}

void expect_shards(const TorchRecording& r, const Program& p) {
  if (!r.raw.contains("local_shards_by_rank")) return;
  std::int64_t recorded = 0, have = 0;
  for (const json& shard : r.raw.at("local_shards_by_rank").at(p.rank)) {
    std::int64_t elems = 1;
    for (const json& size : shard[1]) elems *= size.get<std::int64_t>();
    recorded += elems;
  }
  for (const StatePiece& s : p.states)
    if (s.state == State::param) have += s.elems;
  EXPECT_EQ(have, recorded);
}

void expect_memory(const TorchRecording& r, const Program& p) {
  if (!r.raw.contains("bytes_by_rank")) return;
  json have = json::parse(print_json(p, {}, "").dump()).at("memory_at");
  EXPECT_EQ(have, r.raw.at("bytes_by_rank")[p.rank]);
}

int compare(const std::string& file) {
  int cases = 0;
  for (const TorchRecording& r : torch_recordings(file)) {
    ++cases;
    for (int rank = 0; rank < r.world; ++rank) {
      SCOPED_TRACE(r.name + ", rank " + std::to_string(rank));
      const Program p = build_program(r.deck, r.batch, r.world, rank, Profile{});
      require_legal(check(p));
      expect_rows(r, p);
      expect_shards(r, p);
      expect_memory(r, p);
    }
    require_legal(check_ranks(ranks_of_world(r.world), [&](int rank) {
      return build_program(r.deck, r.batch, r.world, rank, Profile{}, Extent::collectives);
    }));
  }
  return cases;
}

TEST(TorchRecorded, CollectivesRowByRow) {
  EXPECT_GE(compare("torch_traces.json"), 21);
}

}  // namespace
}  // namespace shardmark::test::torch_recorded_test
