// SPDX-License-Identifier: Apache-2.0
// report.html of runs that no test can make: the page stays well-formed, small and readable for all
// figures and texts.
#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include <miniapp/charts/axis.hpp>
#include <miniapp/report/html/page.hpp>
#include <tests/support/markup.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::test::report_page_test {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double inf = std::numeric_limits<double>::infinity();

Result result_of(const std::vector<double>& losses) {
  Result r;
  for (const double loss : losses) {
    LossRow& row = r.rows.emplace_back();
    row.step = static_cast<std::int64_t>(r.rows.size()) - 1;
    row.loss = loss;
  }
  r.ranks.resize(1);
  return r;
}

// A trace with every event of one step, each 1 us long, and a record for each collective.
void trace_step(const Program& p, int times, Result& r) {
  std::int64_t now_ns = 1;
  r.trace.step = 0;
  r.trace.collective_names = {"bucket <0>"};
  const Step& step = p.steps.back();
  const std::vector<int> segments = segments_of(step, false);
  for (int time = 0; time < times; ++time)
    for (const int s : segments) {
      const auto& events = p.segments[s].events;
      const auto live = live_after(p, s);
      for (int e = 0; e < static_cast<int>(events.size()); ++e, now_ns += 1000) {
        TracedEvent& t = r.trace.events.emplace_back();
        t.segment = s, t.event = e, t.begin_ns = now_ns, t.end_ns = now_ns + 1000;
        for (const std::int64_t bytes : live[e][0]) t.held_bytes[0] += bytes;
        if (!is_collective(events[e].op)) continue;
        CollectiveRecord c;
        c.op = events[e].op, c.name = 0, c.issue_ns = now_ns, c.done_ns = now_ns + 50000;
        r.trace.collectives.push_back(c);
      }
    }
}

std::string page_of(const Result& r, const Deck& deck = gpt2_deck(3)) {
  return report_html(deck, program(deck, 2, 0), r);
}

// The drawings are there for wide and for narrow screens; this is the page with the former alone.
std::string wide_page_of(const Result& r, const Deck& deck = gpt2_deck(3)) {
  std::string page = page_of(r, deck);
  const std::string narrow = "<div class=\"on-narrow\">";
  for (std::size_t at = 0; (at = page.find(narrow)) != std::string::npos;)
    page.erase(at, page.find("</svg>", at) - at);
  return page;
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++n;
  return n;
}

TEST(ReportPage, ShowsLossesOfEveryKind) {
  const std::vector<std::vector<double>> runs{{2.5},       {nan},          {inf, -inf, nan},
                                              {3, nan, 2}, {4, 4, 4},      {1e30, 1, -1e30},
                                              {0, 0},      {1e-12, 2e-12}, {}};
  for (const auto& losses : runs) {
    const std::string page = page_of(result_of(losses));
    EXPECT_EQ(malformed(page), "");
    const std::size_t svg = page.find("<svg");
    const std::string drawing = page.substr(std::min(svg, page.size()));
    EXPECT_EQ(drawing.find("\"nan"), std::string::npos) << "a coordinate";
    EXPECT_EQ(drawing.find("inf\""), std::string::npos) << "a coordinate";
    for (const char* part : {" nan", "nan ", "Hnan", "Mnan"})
      EXPECT_EQ(drawing.substr(0, drawing.find("</svg>")).find(part), std::string::npos) << part;
  }
  EXPECT_EQ(count(wide_page_of(result_of({3, nan, 2})), "<circle"), 2U) << "two lone points";
  EXPECT_NE(page_of(result_of({nan})).find("No step had a finite loss"), std::string::npos);
  EXPECT_EQ(count(wide_page_of(result_of({3, 2, 1})), "class=\"lost\""), 0U);
  EXPECT_EQ(count(wide_page_of(result_of({3, nan, 2, inf})), "class=\"lost\""), 2U);
}

// At 420 pixels a drawing of 960 units could only be scrolled.
TEST(ReportPage, DrawsChartsForWideAndForNarrowScreens) {
  const std::string page = page_of(result_of({3, 2, 1}));
  EXPECT_EQ(count(page, "viewBox=\"0 0 960 "), 1U);
  EXPECT_EQ(count(page, "viewBox=\"0 0 470 "), 1U);
  EXPECT_EQ(count(page, "class=\"on-wide\""), count(page, "class=\"on-narrow\""));
}

TEST(ReportPage, IsHeadedByTheFiguresOfMeritOfTheDeck) {
  Result r = result_of({});
  r.tokens_per_s = 8.5;
  EXPECT_EQ(count(page_of(r), "class=\"fom\">8.5</span><span>tokens/s</span>"), 1U);
  r.checkpoints.timed_bytes = std::int64_t{6} << 30;
  r.checkpoints.timed_write_s = {1, 3}, r.checkpoints.timed_read_s = {1, 1};
  const std::string page = page_of(r);
  EXPECT_EQ(count(page, "class=\"fom\">3</span><span>GiB/s written</span>"), 1U);
  EXPECT_EQ(count(page, "class=\"fom\">6</span><span>GiB/s read</span>"), 1U);
  EXPECT_EQ(page.find("tokens/s</span>"), std::string::npos);
}

// Six GiB in 1, 2 and 3 s are 6, 3 and 2 GiB/s.
TEST(ReportPage, DrawsEachRepetitionOfAStorageDeck) {
  Result r = result_of({});
  EXPECT_EQ(page_of(r).find("<h2>Checkpoints"), std::string::npos);
  r.checkpoints.timed_bytes = std::int64_t{6} << 30;
  r.checkpoints.timed_write_s = {3, 1, 2}, r.checkpoints.timed_read_s = {1, 1, 1, 1};
  const std::string page = wide_page_of(r);
  EXPECT_EQ(malformed(page_of(r)), "");
  bool there = false;
  for (const auto& row : rows_of_tables(page))
    there = there || row == std::vector<std::string>{"write", "3",     "2.000", "3.000", "6.000",
                                                     "3.000", "1.000", "2.000", "3.000"};
  EXPECT_TRUE(there) << "lowest, median, highest";
  EXPECT_EQ(count(page, "GiB/s, 1 s</title>") + count(page, "GiB/s, 1.00 s</title>"), 5U);
  EXPECT_EQ(count(page, "<title>write "), 3U);
  EXPECT_EQ(count(page, "<title>read "), 4U);
  EXPECT_NE(page.find("write, median"), std::string::npos);
}

TEST(ReportPage, MarksSkippedStepsAndFiguresThatDiffer) {
  Result r = result_of({3, 2.5, 2});
  EXPECT_EQ(count(wide_page_of(r), "class=\"skipped\""), 0U);
  r.rows[1].skipped = true;
  EXPECT_EQ(count(wide_page_of(r), "class=\"skipped\""), 1U);
  r.tiers[0].predicted_peak = r.tiers[0].measured_peak = 1234567;
  EXPECT_EQ(page_of(r).find("<strong"), std::string::npos);
  r.tiers[0].measured_peak += 1;
  EXPECT_NE(page_of(r).find("<strong class=\"bad\">1\u202f234\u202f568</strong>"),
            std::string::npos);
}

TEST(ReportPage, StaysSmallWithManyEvents) {
  const Deck deck = gpt2_deck(3, 40);
  for (const MemoryMode mode : {MemoryMode::strict, MemoryMode::pooled}) {
    Program p = program(deck, 2, 0, 4);
    p.memory_mode = mode;
    Result r = result_of(std::vector<double>(100000, 2.5));
    for (std::size_t i = 0; i < r.rows.size(); ++i) r.rows[i].loss += std::sin(i) / 10;
    trace_step(p, 30, r);
    EXPECT_GT(r.trace.events.size(), 50000U);
    const std::string page = report_html(deck, p, r);
    EXPECT_EQ(malformed(page), "");
    EXPECT_LT(page.size(), 2000000U) << r.trace.events.size() << " events";
    EXPECT_NE(page.find("and 1"), std::string::npos) << "spans become one";
  }
}

TEST(ReportPage, EscapesEveryText) {
  const std::string evil = "<b>&\"'\x01\xff\xc0\xaf\xed\xa0\x80 é";
  Deck deck = gpt2_deck(3);
  deck.name = deck.path = evil;
  Result r = result_of({3, 2});
  r.deck_text = r.deck_hash = r.plan_hash = r.bf16_products = evil;
  r.tiers[0].predicted_peak = 1;
  r.tiers[0].at = r.tiers[0].budget_source = evil;
  r.ranks.resize(2);
  for (RankInfo& rank : r.ranks) {
    rank.host = rank.processor = rank.cores = rank.numa_nodes = evil;
    rank.environment = {evil + "=" + evil};
  }
  r.versions = {{"kokkos", evil}};
  r.warnings = r.run_class.reasons = {evil};
  r.checks = {{evil, Check::State::fail, evil}};
  const std::string page = page_of(r, deck);
  EXPECT_EQ(malformed(page), "");
  EXPECT_EQ(page.find("<b>"), std::string::npos);
  EXPECT_EQ(page.find('\xff'), std::string::npos);
  // The provenance is the text of the report, which prints such bytes as escapes.
  EXPECT_EQ(count(page, "&lt;b&gt;&amp;&quot;&#39; \ufffd\ufffd\ufffd\ufffd\ufffd\ufffd é") +
                count(page, "&lt;b&gt;&amp;&quot;&#39;\\x01\\xff\\xc0\\xaf\\xed\\xa0\\x80 é"),
            23U)
      << "name, path, hashes, ranks, environment, checks … : each is there";
}

TEST(ReportPage, TicksAreRoundAndFew) {
  using html::ticks;
  EXPECT_EQ(ticks(0, 10, 6), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(ticks(0, 4, 11, 1), (std::vector<double>{0, 1, 2, 3, 4}));
  EXPECT_EQ(ticks(3, 3, 6), (std::vector<double>{3}));
  for (const double high : {1e-9, 0.37, 1.0, 17.0, 999.0, 4e5, 7e12}) {
    const auto values = ticks(0, high, 7);
    EXPECT_GE(values.size(), 3U) << high;
    EXPECT_LE(values.size(), 7U) << high;
    EXPECT_LE(values.back(), high * (1 + 1e-9));
  }
  EXPECT_EQ(html::tick_text(2.5, 0.5), "2.5");
  EXPECT_EQ(html::tick_text(200000, 50000), "200000");
  EXPECT_EQ(html::tick_text(2e30, 1e30), "2e+30");
}

TEST(ReportPage, ThinningKeepsExtremes) {
  std::vector<html::Point> points;
  for (int i = 0; i < 100000; ++i) points.push_back({static_cast<double>(i), 0});
  points[54321].y = 7;
  points[54322].y = -7;
  const auto kept = html::thinned(points, 100);
  EXPECT_LE(kept.size(), 400U);
  const auto has = [&](double y) {
    return std::any_of(kept.begin(), kept.end(), [y](const html::Point& p) { return p.y == y; });
  };
  EXPECT_TRUE(has(7) && has(-7));
  EXPECT_EQ(kept.front().x, 0);
  EXPECT_EQ(kept.back().x, 99999);
}

}  // namespace
}  // namespace shardmark::test::report_page_test
