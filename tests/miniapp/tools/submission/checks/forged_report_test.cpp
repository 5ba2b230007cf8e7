// SPDX-License-Identifier: Apache-2.0
// Whoever edits one figure of a report contradicts another one, even if every checksum is mended:
// checksums, times of steps and ranks, collectives and copies. `verify` prints both figures.
#include <tests/miniapp/tools/submission/checks/forged.hpp>

namespace shardmark::test::forged_report_test {
namespace {

TEST_F(Forged, IsVerifiedAsItIs) {
  const Outcome o = verify([](Json&, std::string&) {});
  EXPECT_EQ(o.status, 0) << o.out << o.err;
}

TEST_F(Forged, ReportsAndLossesHaveAChecksum) {
  ArchiveFiles files = read_archive(place_->path("ours.zip"));
  const auto verify_edited = [&](const char* name, const std::string& text) {
    ArchiveFiles edited = files;
    edited[name] = text;
    mend_index(edited);
    write_archive(place_->path("edited.zip"), edited);
    return run({.args = {"verify", place_->path("edited.zip")}});
  };
  Json report = Json::parse(files.at("runs/1/report.json"));
  report["warnings"].push_back("none");
  const Outcome edited = verify_edited("runs/1/report.json", report.dump(2));
  EXPECT_EQ(edited.status, 1);
  EXPECT_NE(edited.out.find("report.json was changed after the run"), std::string::npos)
      << edited.out;
  report = Json::parse(files.at("runs/1/report.json"));
  EXPECT_EQ(verify_edited("runs/1/report.json", report.dump()).status, 0) << "only blanks changed";
  report.erase("checksum");
  EXPECT_EQ(verify_edited("runs/1/report.json", report.dump(2)).status, 1);
  const Outcome losses =
      verify_edited("runs/1/losses.csv",
                    with_times(files.at("runs/1/losses.csv"), [](int, double s) { return s; }));
  EXPECT_EQ(losses.status, losses.out.find("losses.csv was changed") == std::string::npos ? 0 : 1);
}

TEST_F(Forged, AFormThatIsNoObjectIsNoSubmission) {
  ArchiveFiles files = read_archive(place_->path("ours.zip"));
  Json index = Json::parse(files.at("submission.json"));
  for (const Json& form : {Json("ours"), Json(7), Json::array({1})}) {
    index["form"] = form;
    files["submission.json"] = index.dump();
    write_archive(place_->path("formless.zip"), files);
    const Outcome o = run({.args = {"verify", place_->path("formless.zip")}});
    EXPECT_EQ(o.status, 4) << form << ": " << o.out << o.err;
    EXPECT_NE(o.err.find("submission.json: form: must be an object"), std::string::npos) << o.err;
  }
}

TEST_F(Forged, FoldersThatWereEditedAreRefusedBySubmit) {
  const std::string folder = place_->path("edited");
  std::filesystem::copy(place_->out(), folder);
  Json report = Json::parse(read_text(folder + "/report.json"));
  report["class"] = "official";
  report["unofficial_reasons"] = Json::array();
  place_->write("edited/report.json", report.dump(2));
  const Outcome o = run({.args = {"submit", folder, "--out", place_->path("e.zip")}});
  EXPECT_EQ(o.status, 1) << o.out << o.err;
  EXPECT_NE(o.out.find("report.json was changed after the run"), std::string::npos) << o.out;
}

TEST_F(Forged, TokensTimesParametersFollowFromBoth) {
  expect_scaled_refused("/parameter_tokens_per_s", 2, "parameter_tokens_per_s: the report says");
}

// A short run is no long one: its steps, and the time from its start to its end, stay short.
TEST_F(Forged, ALongerTimedSpanThanTheStepsIsRefused) {
  const auto stretch = [](Json& r, std::string&) {
    const double longer = 61, before = r["step_seconds"]["timed_total"];
    r["step_seconds"]["timed_total"] = longer;
    for (Json* figure : {&r["fom"]["value"], &r["parameter_tokens_per_s"]})
      *figure = figure->get<double>() * before / longer;
  };
  expect_refused(stretch, "timed_total is 61, more than the timed steps of losses.csv");
  expect_refused(stretch, "timed_total, in s, is ");
}

// The sentences of checks that follow from the losses are made again.
TEST_F(Forged, WhatChecksSayOfTheLossesIsMadeAgain) {
  for (const char* name : {"finite", "loss_drop", "expect.loss", "updates"})
    expect_refused(
        [&](Json& r, std::string&) {
          for (Json& check : r["checks"])
            if (check["name"] == name) check["detail"] = "another sentence";
        },
        std::string("the check ") + name + ": the report says another sentence");
}

// Halves every time that the figure of merit follows from, and leaves the others.
TEST_F(Forged, TimesThatOnlyTheStepsHaveAreRefused) {
  expect_refused(
      [](Json& r, std::string& losses) {
        losses = with_times(losses, [](int, double s) { return s / 2; });
        for (Json& figure : r["step_seconds"]) figure = figure.get<double>() / 2;
        for (Json& figure : r["seconds_per_step"]) figure = figure.get<double>() / 2;
        r["fom"]["value"] = r["fom"]["value"].get<double>() * 2;
      },
      "more than the mean step of losses.csv");
}

// The same with the ranks and hosts, but not the collectives, copies and prediction.
TEST_F(Forged, TimesThatContradictThePredictionAreRefused) {
  const auto halve = [](Json& json) { json = json.get<double>() / 2; };
  expect_refused(
      [&](Json& r, std::string& losses) {
        losses = with_times(losses, [](int, double s) { return s / 2; });
        for (Json& figure : r["step_seconds"]) halve(figure);
        for (Json& figure : r["seconds_per_step"]) halve(figure);
        for (Json& figure : r["slowest_rank"]["seconds_per_step"]) halve(figure);
        halve(r["slowest_rank"]["own_seconds_per_step"]);
        for (const char* list : {"rank_steps", "host_steps"})
          for (Json& one : r[list]) {
            for (Json& figure : one["own_seconds"]) halve(figure);
            halve(one["waiting_caused_per_step"]);
          }
        r["fom"]["value"] = r["fom"]["value"].get<double>() * 2;
      },
      "error of the predicted step");
}

TEST_F(Forged, TimesOfStepsAreCompared) {
  expect_scaled_refused("/step_seconds/worst", 0.5, "worst of the steps");
  expect_scaled_refused("/step_seconds/timed_total", 1e-9, "than timed_total");
  expect_refused("/seconds_per_step/backward", 1e3, "more than the mean step of losses.csv");
  expect_refused("/seconds_per_step/matmul", 1e3, "matrix products of rank 0");
  expect_refused("/seconds_per_step/copies", 1e3, "copies of rank 0");
  expect_refused("/seconds_per_step/exposed_communication", 1e3, "exposed communication");
  expect_refused("/seconds_per_step/hidden_communication", 10.0, "communication of rank 0");
  expect_refused("/seconds_per_step/forward", -1.0, "no time is");
  expect_refused("/rank_steps/0/own_seconds/p50", 1e3, "the p50 of rank 0's own time");
  expect_refused("/rank_steps/1/own_seconds/p99", 1e3, "the p99 of rank 1's own time");
  expect_scaled_refused("/rank_steps/1/own_seconds/worst", 0.001, "the p99 of rank 1's own time");
  expect_refused("/rank_steps/1/waiting_caused_per_step", 1e3, "the waiting that all ranks caused");
  expect_refused("/rank_steps/1/rank", 0, "rank of rank_steps");
  expect_scaled_refused("/host_steps/0/own_seconds/worst", 0.9, "worst of host");
  expect_refused("/host_steps/0/host", "elsewhere", "on which no rank ran");
  expect_refused("/slowest_rank/rank", 7, "there is no such rank");
  expect_scaled_refused("/slowest_rank/own_seconds_per_step", 0.9, "own time of the slowest rank");
}

// A step is as long as that of its slowest rank.
TEST_F(Forged, NoRankIsSlowerThanTheSteps) {
  const Outcome o = verify([](Json& r, std::string&) {
    const double longer_s = 1.1 * r["step_seconds"]["worst"].get<double>();
    for (Json& figure : r["rank_steps"][0]["own_seconds"]) figure = longer_s;
  });
  EXPECT_EQ(o.status, 1) << o.out << o.err;
  for (const char* percentile : {"p50", "p99", "worst"})
    EXPECT_NE(o.out.find(std::string("more than the ") + percentile + " of the steps"),
              std::string::npos)
        << percentile << "\n"
        << o.out;
}

TEST_F(Forged, RanksFromAnotherRunAreRefused) {
  expect_refused(
      [](Json& r, std::string&) {
        for (Json& figure : r["rank_steps"][1]["own_seconds"]) figure = 1e-7;
        for (Json& figure : r["rank_steps"][0]["own_seconds"]) figure = 1e-7;
        for (Json& figure : r["host_steps"][0]["own_seconds"]) figure = 1e-7;
      },
      "the most that its percentiles allow");
  expect_refused([](Json& r, std::string&) { r["rank_steps"].erase(1); }, "ranks of rank_steps");
  expect_refused([](Json& r, std::string&) { r["ranks"][1] = r["ranks"][0]; }, "number of a rank");
  expect_refused([](Json& r, std::string&) { r["ranks"][1]["pid"] = r["ranks"][0]["pid"]; },
                 "is the same process");
  expect_refused("/ranks/1/host", "elsewhere", "host_steps lacks host elsewhere");
  expect_refused("/ranks/1/kernel_threads", 0, "has no thread");
  expect_refused("/profile/ranks_per_node", 3, "the ranks per node");
}

TEST_F(Forged, CollectivesMustFitTheirBytes) {
  expect_refused("/collectives/broadcast/bus_gb_per_s", 0.5, "sends bytes by it");
  expect_scaled_refused("/collectives/all_gather/bus_gb_per_s", 1e-9,
                        "the most that its p50 and p99 allow");
  expect_refused(
      [](Json& r, std::string&) {
        Json& calls = r["collectives"]["all_gather"];
        calls["late_s"] = 0.0;
        calls["bus_gb_per_s"] = calls["bus_gb_per_s"].get<double>() * 1e6;
      },
      "the least time of all timed calls by p50 and p99");
  expect_refused(
      [](Json& r, std::string&) {
        for (const char* figure : {"p50_s", "p99_s"})
          r["collectives"]["all_gather"][figure] =
              r["collectives"]["all_gather"][figure].get<double>() * 1e-3;
      },
      "the most that its p50 and p99 allow");
  expect_refused("/collectives/all_gather/bus_gb_per_s", 1e9, "what memory carries");
  expect_refused("/collectives/all_gather/p99_s", 1e3, "the worst step");
  expect_refused("/collectives/all_gather/late_s", 1e3, "all_gather");
  expect_refused("/collectives/broadcast/p99_s", 1e-6, "no timed step has such a call");
}

TEST_F(Forged, CopiesMustBeThoseOfThePlan) {
  const std::string at = "/host_link/device_to_host/";
  expect_refused((at + "measured/bytes").c_str(), 1, "bytes device_to_host");
  expect_scaled_refused((at + "bytes_per_step").c_str(), 2, "bytes per step");
  expect_scaled_refused((at + "gb_per_s").c_str(), 2, "GB/s");
  expect_refused((at + "exposed_seconds_per_step").c_str(), 1e3, "exposed seconds");
}

}  // namespace
}  // namespace shardmark::test::forged_report_test
