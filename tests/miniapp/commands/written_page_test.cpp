// SPDX-License-Identifier: Apache-2.0
// report.html: one page that needs no other file, agrees with report.json, and escapes every text
// that it is given.
#include <algorithm>
#include <cstdio>

#include <gtest/gtest.h>

#include <tests/support/markup.hpp>
#include <tests/support/program.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test::written_page_test {
namespace {

std::string print(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

class Page {
 public:
  explicit Page(const Workplace& place)
      : text_(read_text(place.out() + "/report.html")), rows_(rows_of_tables(text_)) {}

  const std::string& text() const { return text_; }
  bool has(const std::string& text) const { return text_.find(text) != std::string::npos; }
  bool says(const std::string& text) const { return plain(text_).find(text) != std::string::npos; }
  /// Whether some table has a row that starts with these cells.
  bool has_row(const std::vector<std::string>& cells) const {
    return std::any_of(rows_.begin(), rows_.end(), [&](const auto& row) {
      return row.size() >= cells.size() && std::equal(cells.begin(), cells.end(), row.begin());
    });
  }

 private:
  std::string text_;
  std::vector<std::vector<std::string>> rows_;
};

std::string joined(const std::vector<std::string>& cells) {
  std::string text;
  for (const std::string& c : cells) text += c + " | ";
  return text;
}

/// A figure of the report that the page lacks; empty if they agree.
std::string missing(const Page& page, const Json& report) {
  std::string list;
  const auto row = [&](const std::vector<std::string>& cells) {
    if (!page.has_row(cells)) list += "no row " + joined(cells) + "\n";
  };
  const auto says = [&](const std::string& text) {
    if (!page.says(text)) list += "no text " + text + "\n";
  };
  const std::string result = report.at("result");
  if (!page.has(std::string("badge ") + (result == "VALID" ? "good" : "bad") + "\">" + result +
                "<"))
    list += "no verdict " + result + "\n";
  if (!page.has("class=\"fom\">" + print("%g", report.at("fom").at("value")) + "<"))
    list += "no figure of merit\n";
  says(report.at("invalid_reasons"));
  says(report.at("class"));
  for (const std::string reason : report.at("unofficial_reasons")) says(reason);
  for (const Json& c : report.at("checks")) {
    const bool failed = c.at("state") == "fail";
    row({c.at("name"), failed ? "FAIL" : c.at("state").get<std::string>(), c.at("detail")});
  }
  const Json& device = report.at("memory").at("device");
  const bool strict = !device.at("measured_by_category").empty();
  for (const auto& [category, bytes] : device.at("predicted_by_category").items())
    row({"device", category, bytes.dump(),
         strict ? device.at("measured_by_category").at(category).dump() : "–"});
  const std::string peak = device.at("measured_peak").dump();
  row({"device", "live peak", device.at("live_peak").dump(), strict ? peak : "–"});
  if (!strict) row({"device", "arena", device.at("predicted_peak").dump(), peak});
  row({"device", "budget", device.at("budget").dump()});
  for (const auto& [op, c] : report.at("collectives").items())
    row({op, c.at("measured").at("calls").dump(), c.at("predicted").at("calls").dump(),
         c.at("measured").at("bytes").dump(), print("%.3f", c.at("p50_s").get<double>() * 1e3)});
  const Json& seconds = report.at("seconds_per_step");
  const std::pair<const char*, const char*> times[] = {
      {"forward", "forward"},
      {"optimizer", "optimizer"},
      {"matrix products", "matmul"},
      {"exposed communication", "exposed_communication"}};
  for (const auto& [name, key] : times)
    row({name, print("%.2f", seconds.at(key).get<double>() * 1e3)});
  row({"step p50", print("%.2f", report.at("step_seconds").at("p50").get<double>() * 1e3)});
  if (report.contains("loss") && report.at("loss").at("last").is_number())
    says(print("%.6f", report.at("loss").at("last")) + " at step ");
  for (const auto& [state, hash] : report.at("state_hash").items())
    row({"state hash, " + state, hash});
  row({"plan hash", report.at("plan_hash")});
  row({"Kokkos", report.at("versions").at("kokkos")});
  for (const auto& [name, value] : report.at("environment").items()) row({name, value});
  for (const std::string warning : report.at("warnings")) says(warning);
  return list;
}

void expect_sound(const Page& page, const Json& report) {
  EXPECT_EQ(malformed(page.text()), "");
  EXPECT_EQ(missing(page, report), "");
  EXPECT_LT(page.text().size(), 2000000U);
  for (const char* outside :
       {"http:", "https:", "//", "src=", "href=", "url(", "@import", "<script"})
    EXPECT_FALSE(page.has(outside)) << outside << " would ask for more than the page";
}

TEST(Page, SaysWhatTheReportSays) {
  for (int stage : {0, 1, 2, 3}) {
    SCOPED_TRACE(stage);
    const Workplace place;
    place.deck(stage, {{"run", {{"warmup", 1}, {"memory_mode", stage < 2 ? "strict" : "pooled"}}}});
    const int ranks = stage + 1;
    ASSERT_EQ(run({.args = place.run_args(), .ranks = ranks}).status, 0);
    const Page page(place);
    expect_sound(page, place.report());
    for (const char* chart : {"Loss over", "Live memory", "One step over time"})
      EXPECT_TRUE(page.has(std::string("aria-label=\"") + chart)) << chart;
    EXPECT_TRUE(page.says("step 0, the last warm-up step"));
    EXPECT_TRUE(page.says(stage < 2 ? "what the ledger counted" : "what the executor held"));
  }
}

// Shows that the test above can fail.
TEST(Page, FiguresThatDifferAreSeen) {
  const Workplace place;
  place.deck(3, {{"run", {{"warmup", 1}}}});
  ASSERT_EQ(run({.args = place.run_args(), .ranks = 2}).status, 0);
  const Page page(place);
  const Json report = place.report();
  ASSERT_EQ(missing(page, report), "");
  for (const char* where :
       {"/fom/value", "/memory/device/live_peak", "/memory/device/measured_peak",
        "/memory/device/predicted_by_category/grad", "/collectives/all_gather/measured/calls",
        "/collectives/all_gather/predicted/calls", "/collectives/all_gather/measured/bytes",
        "/seconds_per_step/matmul", "/step_seconds/p50", "/loss/last"}) {
    Json other = report;
    Json& figure = other.at(Json::json_pointer(where));
    if (figure.is_number_integer())
      figure = figure.get<std::int64_t>() + 1;
    else
      figure = figure.get<double>() * 1.5;
    EXPECT_NE(missing(page, other), "") << where;
  }
  for (const char* where : {"/result", "/state_hash/param", "/plan_hash", "/checks/0/state"}) {
    Json other = report;
    other.at(Json::json_pointer(where)) = "another";
    EXPECT_NE(missing(page, other), "") << where;
  }
}

TEST(Page, EscapesWhatItIsGiven) {
  const std::string name = R"(a <b>bold</b> & "c" 'd' <script>alert(1)</script> é)";
  const Workplace place;
  place.deck(3, {{"name", name}});
  ASSERT_EQ(run({.args = place.run_args(),
                 .ranks = 2,
                 .environment = {{"SHARDMARK_NOTE", "<i>first & \"last\"</i>"}}})
                .status,
            0);
  const Page page(place);
  expect_sound(page, place.report());
  EXPECT_TRUE(page.says(name));
  EXPECT_FALSE(page.has("<b>") || page.has("<i>"));
  EXPECT_TRUE(page.says("No step was traced")) << "every step is timed";
}

TEST(Page, ShowsRunsThatFailedOrTrainedNothing) {
  const Workplace broken;
  broken.deck(3, {{"run", {{"warmup", 2}}}});
  EXPECT_EQ(
      run({.args = broken.run_args(), .ranks = 2, .environment = {{"SHARDMARK_FAULT", "nan"}}})
          .status,
      1);
  expect_sound(Page(broken), broken.report());
  EXPECT_EQ(broken.report().at("result"), "INVALID");

  const Workplace idle;
  idle.deck(2, {{"run", {{"warmup", 1}, {"steps", 1}, {"compute", "none"}}}});
  ASSERT_EQ(run({.args = idle.run_args(), .ranks = 2}).status, 0);
  const Page page(idle);
  expect_sound(page, idle.report());
  EXPECT_FALSE(page.has("<h2>Loss")) << "there is none";
  EXPECT_TRUE(page.has("aria-label=\"Live memory"));
}

}  // namespace
}  // namespace shardmark::test::written_page_test
