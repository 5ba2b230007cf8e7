// SPDX-License-Identifier: Apache-2.0
// The grid of a sweep, its files and its table, without a run.
#include <filesystem>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <miniapp/tools/sweep/store.hpp>
#include <miniapp/tools/sweep/table.hpp>
#include <tests/miniapp/tools/sweep/sweep_example.hpp>
#include <tests/support/io_scratch.hpp>

namespace shardmark::test::sweep_table_test {
namespace {

using namespace sweep_example;

TEST(SweepGrid, SplitsValuesAtCommasOutsideBrackets) {
  const Axis axis = parse_axis(R"(a.b=1e6,[1,2],{"x":3,"y":[4,5]},"u,v",auto)");
  EXPECT_EQ(axis.key, "a.b");
  EXPECT_EQ(axis.values, (Values{"1e6", "[1,2]", R"({"x":3,"y":[4,5]})", R"("u,v")", "auto"}));
}

TEST(SweepGrid, RefusesBadArguments) {
  const std::pair<const char*, const char*> bad[] = {{"run.steps", "must be key"},
                                                     {"=1", "must be key"},
                                                     {"run.steps=", "is empty"},
                                                     {"run.steps=1,,2", "is empty"},
                                                     {"run.steps=1,2,1", "is given twice"},
                                                     {"ranks=1,2", "not a key of a deck"}};
  for (const auto& [argument, why] : bad)
    expect_says(message_of<DeckError>([&, a = argument] { parse_axis(a); }), {argument, why});
  expect_says(message_of<DeckError>([] { parse_axes({"a=1", "b=1", "a=2"}); }), {"a", "twice"});
  for (const char* ranks : {"", "0", "1,x", "2,", "-1", "99999999999"})
    expect_says(message_of<DeckError>([&] { parse_ranks(ranks); }), {"--ranks", "at least 1"});
  Axis wide{"w", {}};
  for (int i = 0; i < 101; ++i) wide.values.push_back(std::to_string(i));
  expect_says(message_of<DeckError>([&] {
                points_of({wide, {"v", wide.values}}, {1});
              }),
              {"more than", "vary less"});
}

TEST(SweepGrid, HasEachCombinationOnce) {
  const auto points = points_of({{"a", {"1", "2"}}, {"b", {"x", "y", "z"}}}, parse_ranks("4,2,4"));
  ASSERT_EQ(points.size(), 12U);
  EXPECT_EQ(points[0].ranks, 2);
  EXPECT_EQ(points[1].sets(), (Values{"a=1", "b=y"}));
  EXPECT_EQ(points[11].sets(), (Values{"a=2", "b=z"}));
  std::set<std::string> names;
  for (const GridPoint& p : points) names.insert(p.name());
  EXPECT_EQ(names.size(), points.size());
  const GridPoint turned{2, {{"b", "y"}, {"a", "1"}}};
  EXPECT_EQ(turned.name(), points[1].name()) << "the order of the axes is no part of a point";
}

TEST(SweepPoints, ReadBackUnchanged) {
  const GridPoint at{2, {{"a", "1e6"}, {"b", "[1,2]"}}};
  SweepPoint no_loss = ran(at);
  no_loss.run->loss = std::numeric_limits<double>::quiet_NaN();
  for (const SweepPoint& p : {planned(at), ran(at), refused(at), no_loss}) {
    const auto json = to_json(p);
    EXPECT_EQ(to_json(point_of_json(nlohmann::ordered_json::parse(json.dump()))), json);
  }
  EXPECT_EQ(to_json(ran(at)).at("run").at("exposed_s"), ran(at).run->exposed);
  auto wrong = to_json(planned(at));
  wrong["state"] = "fine";
  EXPECT_THROW(point_of_json(wrong), IoError);
}

TEST(SweepPoints, HaveThePlansFigures) {
  const Program p = program(gpt2_deck(3), 4, 0, 2);
  const PlanFigures f = plan_figures(gpt2_deck(3), p, {1, std::nullopt});
  std::int64_t calls = 0, bytes = 0;
  for (const auto& [op, traffic] : steady_volume(p)) calls += traffic.calls, bytes += traffic.bytes;
  EXPECT_EQ(f.calls(), calls);
  EXPECT_EQ(f.bytes(), bytes);
  const Footprint memory = footprint(p);
  EXPECT_EQ(f.peak(), memory[Tier::device].peak_bytes + memory[Tier::host].peak_bytes);
  EXPECT_EQ(f.fits[0], false);
  EXPECT_EQ(f.fits[1], std::nullopt);
  EXPECT_EQ(f.batch.accumulation, 2);
}

TEST(SweepStore, KeepsOnlyFinishedPoints) {
  const ScratchFolder scratch;
  const std::vector<Axis> axes{{"a", {"1", "2", "3"}}};
  const auto grid = points_of(axes, {2});
  {
    PointStore store(scratch.path("s"), "deck A");
    EXPECT_TRUE(store.notes(grid).empty());
    store.keep(ran(grid[0]));
    store.keep(refused(grid[1]));
    store.keep(planned({4, {{"a", "3"}}}));
    store.keep(planned({2, {{"a", "99"}}}));
    EXPECT_NE(store.find(grid[0]), nullptr) << "immediately";
  }
  const PointStore store(scratch.path("s"), "deck A");
  ASSERT_NE(store.find(grid[0]), nullptr);
  EXPECT_EQ(to_json(*store.find(grid[0])), to_json(ran(grid[0])));
  EXPECT_EQ(store.find(grid[1])->status, ExitStatus::memory);
  EXPECT_EQ(store.find(grid[2]), nullptr);
  EXPECT_EQ(store.other_ranks(axes, {2}), std::vector<int>{4});
  const auto notes = store.notes(grid);
  ASSERT_EQ(notes.size(), 2U);
  expect_says(notes[0], {"2 points of other keys or values"});
  expect_says(notes[1], {"2 points done before", "not done again"});

  const PointStore other(scratch.path("s"), "deck B");
  EXPECT_EQ(other.find(grid[0]), nullptr) << "another deck's points are not this one's";
  expect_says(other.notes(grid).at(0), {"4 points of another deck", "done again"});
}

TEST(SweepStore, RepeatsDamagedPointsAndSaysSo) {
  const ScratchFolder scratch;
  const auto grid = points_of({{"a", {"1", "2", "3"}}}, {2});
  std::vector<std::string> files;
  {
    PointStore store(scratch.path(), "deck");
    for (const GridPoint& at : grid) {
      store.keep(ran(at));
      files.push_back(store.folder_of(at) + "/point.json");
    }
  }
  std::filesystem::resize_file(files[0], 100);
  std::filesystem::copy_file(files[2], files[1], std::filesystem::copy_options::overwrite_existing);
  const PointStore store(scratch.path(), "deck");
  EXPECT_EQ(store.find(grid[0]), nullptr) << "truncated";
  EXPECT_EQ(store.find(grid[1]), nullptr) << "another point's file";
  EXPECT_NE(store.find(grid[2]), nullptr);
  const auto notes = store.notes(grid);
  ASSERT_EQ(notes.size(), 3U);
  for (std::size_t i : {0, 1}) expect_says(notes[i], {"point.json", "done again"});
}

// By RFC 4180.
std::vector<Values> rows_of_csv(const std::string& text) {
  std::vector<Values> rows(1, Values(1));
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"' && quoted && text[i + 1] == '"')
      rows.back().back() += text[++i];
    else if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      rows.back().emplace_back();
    else if (c == '\n' && !quoted)
      rows.emplace_back(1);
    else
      rows.back().back() += c;
  }
  rows.pop_back();
  return rows;
}

TEST(SweepTable, HasARowForEachPointAndACellForEachFigure) {
  const Sweep s = example();
  const auto rows = rows_of_csv(sweep_csv(s));
  ASSERT_EQ(rows.size(), s.points.size() + 1);
  const auto column = [&](const std::string& name) {
    const auto at = std::find(rows[0].begin(), rows[0].end(), name);
    EXPECT_NE(at, rows[0].end()) << name;
    return static_cast<std::size_t>(at - rows[0].begin());
  };
  std::set<std::string> names(rows[0].begin(), rows[0].end());
  EXPECT_EQ(names.size(), rows[0].size()) << "a name stands for one column";
  for (std::size_t i = 0; i < s.points.size(); ++i) {
    const Values& row = rows[i + 1];
    const SweepPoint& p = s.points[i];
    ASSERT_EQ(row.size(), rows[0].size());
    EXPECT_EQ(row[column("ranks")], std::to_string(p.at.ranks));
    EXPECT_EQ(row[column("x.reduce_bucket_size")], p.at.values[0].second);
    EXPECT_EQ(row[column("result")], to_string(p.state));
    EXPECT_EQ(row[column("reason")], p.reason);
    EXPECT_EQ(row[column("step_calls")], p.plan ? std::to_string(p.plan->calls()) : "");
    EXPECT_EQ(row[column("exposed_s")].empty(), !p.run);
    if (p.run) {
      EXPECT_EQ(std::stod(row[column("exposed_s")]), p.run->exposed);
    }
    if (!p.plan) continue;
    std::int64_t sum = 0;
    for (const Tier t : all_values<Tier>)
      for (const Category c : all_values<Category>)
        sum += std::stoll(
            row[column(std::string(to_string(t)) + "_" + std::string(to_string(c)) + "_bytes")]);
    EXPECT_EQ(std::to_string(sum), row[column("live_peak_bytes")]);
  }
}

TEST(SweepTable, EndsWithTheStatusOfTheFirstBadPoint) {
  Sweep s = example();
  EXPECT_EQ(sweep_status(s), ExitStatus::memory);
  s.ranks = {2};
  s.points.erase(s.points.begin(), s.points.begin() + 6);
  EXPECT_EQ(sweep_status(s), ExitStatus::invalid);
  EXPECT_EQ(sweep_summary(s), "6 points: 5 VALID, 1 INVALID");
  s.points.pop_back();
  EXPECT_EQ(sweep_status(s), ExitStatus::valid);
}

}  // namespace
}  // namespace shardmark::test::sweep_table_test
