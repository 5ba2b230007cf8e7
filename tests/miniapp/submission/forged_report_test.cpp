// SPDX-License-Identifier: Apache-2.0
// Whoever edits one figure of a report contradicts another one, even if every checksum is mended:
// each figure that others determine or bound is recomputed, and `verify` prints both.
#include <gtest/gtest.h>

#include <tests/miniapp/submission/mended_archive.hpp>
#include <tests/support/program.hpp>

namespace shardmark::test::forged_report_test {
namespace {

constexpr int steps = 12, warmup = 3;

// An honest run of two ranks with copies, checkpoints and a prediction, made once.
class Forged : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    place_ = new Workplace;
    const std::string deck = place_->deck(
        2, {{"deepspeed", {{"zero_optimization", {{"offload_optimizer", {{"device", "cpu"}}}}}}},
            {"run", {{"steps", steps}, {"warmup", warmup}}},
            {"checkpoint", {{"dir", "ckpt"}, {"every", 5}}}});
    const Outcome ran =
        run({.args = {"run", deck, "--out", place_->out(), "--machine",
                      std::string(SHARDMARK_TEST_INPUTS) + "/machines/cpu-2-socket.json"},
             .ranks = 2});
    ASSERT_EQ(ran.status, 0) << ran.out << ran.err;
    const Outcome packed =
        run({.args = {"submit", place_->out(), "--out", place_->path("ours.zip")}});
    ASSERT_EQ(packed.status, 0) << packed.out << packed.err;
  }
  static void TearDownTestSuite() {
    delete place_;
    place_ = nullptr;
  }

  static Outcome verify(const std::function<void(Json& report, std::string& losses)>& change) {
    ArchiveFiles files = read_archive(place_->path("ours.zip"));
    change_run(files, "runs/1", change);
    write_archive(place_->path("forged.zip"), files);
    return run({.args = {"verify", place_->path("forged.zip")}});
  }

  static void expect_refused(const std::function<void(Json& report, std::string& losses)>& change,
                             const std::string& why) {
    const Outcome o = verify(change);
    EXPECT_EQ(o.status, 1) << why << "\n" << o.out << o.err;
    EXPECT_NE(o.out.find(why), std::string::npos) << "not found: " << why << "\n" << o.out;
  }

  static void expect_refused(const char* pointer, const Json& value, const std::string& why) {
    expect_refused(
        [&](Json& r, std::string&) {
          ASSERT_TRUE(r.contains(Json::json_pointer(pointer))) << pointer;
          r[Json::json_pointer(pointer)] = value;
        },
        why);
  }
  // Multiplies a figure of the report.
  static void expect_scaled_refused(const char* pointer, double factor, const std::string& why) {
    expect_refused(
        [&](Json& r, std::string&) {
          Json& figure = r.at(Json::json_pointer(pointer));
          ASSERT_GT(figure.get<double>(), 0) << pointer;
          figure = figure.get<double>() * factor;
        },
        why);
  }

  static Workplace* place_;
};

Workplace* Forged::place_ = nullptr;

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
  expect_scaled_refused("/step_seconds/timed_total", 0.01, "than timed_total");
  expect_scaled_refused("/seconds_per_step/backward", 100, "more than the mean step of losses.csv");
  expect_scaled_refused("/seconds_per_step/matmul", 100, "matrix products of rank 0");
  expect_scaled_refused("/seconds_per_step/copies", 1000, "copies of rank 0");
  expect_scaled_refused("/seconds_per_step/exposed_communication", 100, "exposed communication");
  expect_refused("/seconds_per_step/hidden_communication", 10.0, "communication of rank 0");
  expect_refused("/seconds_per_step/forward", -1.0, "no time is");
  expect_scaled_refused("/rank_steps/0/own_seconds/p50", 100, "the p50 of rank 0's own time");
  expect_scaled_refused("/rank_steps/1/own_seconds/p99", 100, "the p99 of rank 1's own time");
  expect_scaled_refused("/rank_steps/1/own_seconds/worst", 0.001, "the p99 of rank 1's own time");
  expect_refused("/rank_steps/1/waiting_caused_per_step", 1e3, "the waiting that all ranks caused");
  expect_refused("/rank_steps/1/rank", 0, "rank of rank_steps");
  expect_scaled_refused("/host_steps/0/own_seconds/worst", 0.9, "worst of host");
  expect_refused("/host_steps/0/host", "elsewhere", "on which no rank ran");
  expect_refused("/slowest_rank/rank", 7, "there is no such rank");
  expect_scaled_refused("/slowest_rank/own_seconds_per_step", 0.9, "own time of the slowest rank");
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
  expect_scaled_refused("/collectives/all_gather/p99_s", 1e6, "the worst step");
  expect_refused("/collectives/all_gather/late_s", 1e3, "all_gather");
  expect_refused("/collectives/broadcast/p99_s", 1e-6, "no timed step has such a call");
}

TEST_F(Forged, CopiesMustBeThoseOfThePlan) {
  const std::string at = "/host_link/device_to_host/";
  expect_refused((at + "measured/bytes").c_str(), 1, "bytes device_to_host");
  expect_scaled_refused((at + "bytes_per_step").c_str(), 2, "bytes per step");
  expect_scaled_refused((at + "gb_per_s").c_str(), 2, "GB/s");
  expect_scaled_refused((at + "exposed_seconds_per_step").c_str(), 1e4, "exposed seconds");
}

TEST_F(Forged, TheProofIsRecomputed) {
  expect_refused("/proof/timed_steps", steps + 1, "timed steps of the proof");
  expect_refused("/proof/proved_steps", 0, "proved steps");
  expect_refused("/proof/cost", 50.0, "the time of the proof");
  expect_refused("/proof/collectives", 1000000, "proved collectives");
  expect_refused([](Json& r, std::string&) { r.erase("proof"); }, "/proof");
}

TEST_F(Forged, TheReplayIsRecomputed) {
  expect_refused("/replay/step", 0, "is no timed step");
  expect_refused("/replay/bound", 1.0, "bound of the replay");
  expect_refused("/replay/gradient_difference", 0.5, "the difference of the replay");
}

TEST_F(Forged, ThePredictionIsRecomputed) {
  expect_refused("/error/step", 0.0, "error of the predicted step");
  expect_scaled_refused("/prediction/tokens_per_s", 2, "tokens_per_s of the prediction");
  expect_scaled_refused("/prediction/step_s", 0.5, "prediction");
  expect_refused("/prediction/ranks", 4, "ranks of the prediction");
  expect_refused("/error/forward", -1.0 + 1e-12, "the measured forward");
  expect_refused([](Json& r, std::string&) { r["mfu"] = 1.5; }, "mfu is 1.5");
}

TEST_F(Forged, EnergyIsAddedUp) {
  const auto counters = [](double joules) {
    return [joules](Json& r, std::string&) {
      Json& e = r["energy"];
      Json& node = e["nodes"][0];
      node["counters"] = {{{"name", "package-0"},
                           {"source", "powercap"},
                           {"part", "processor"},
                           {"joules", 40.0},
                           {"update_s", 0.001},
                           {"phases",
                            {{"forward", nullptr},
                             {"backward", nullptr},
                             {"optimizer", nullptr},
                             {"checkpoint", nullptr}}}}};
      node["joules"] = joules;
      e["joules"] = joules;
      e["watts"] = joules / e["seconds"].get<double>();
      e["joules_per_rank"] = joules / 2;
      e["joules_per_token"] =
          joules / (r["fom"]["value"].get<double>() * e["seconds"].get<double>());
    };
  };
  EXPECT_EQ(verify(counters(40)).status, 0) << verify(counters(40)).out;
  expect_refused(counters(20), "joules of");
  for (const char* figure : {"watts", "joules_per_rank", "joules_per_token"})
    expect_refused(
        [&](Json& r, std::string& losses) {
          counters(40)(r, losses);
          r["energy"][figure] = r["energy"][figure].get<double>() / 2;
        },
        std::string("energy: ") + figure);
  expect_refused("/energy/nodes/0/ranks", 1, "energy: host");
  expect_scaled_refused("/energy/seconds", 100, "the span of the energy");
}

TEST_F(Forged, ThePlanIsMadeAgain) {
  expect_refused("/batch/train_micro_batch_size_per_gpu", 7, "micro-batch");
  expect_refused("/batch/gradient_accumulation_steps", 7, "accumulation");
  expect_refused("/partition/per_rank", 1, "elements per rank");
  expect_refused(
      [](Json& r, std::string&) {
        r["volume_between_nodes"] = {{"bytes", 1}};
      },
      "volume_between_nodes");
}

TEST_F(Forged, MemoryAndCheckpointsAreRecomputed) {
  expect_refused("/memory/device/predicted_by_category/param", 1, "predicted_by_category");
  expect_refused("/memory/device/predicted_pinned_peak", 1, "pinned peak");
  expect_refused("/memory/device/budget", 1, "the budget");
  expect_refused("/memory/system/rss_peak", std::int64_t{1} << 50, "resident memory");
  expect_refused("/checkpoints/written", 7, "checkpoints written");
  expect_refused("/checkpoints/written_bytes", 7, "fewer than their states");
  expect_refused("/checkpoints/blocked_s", 0.0, "blocked_s");
}

TEST_F(Forged, LossesFollowTheDeck) {
  const auto losses = [](const std::function<std::string(std::string)>& change) {
    return [change](Json&, std::string& text) { text = change(text); };
  };
  expect_refused(losses([](std::string t) {
                   const std::size_t row = t.rfind('\n', t.size() - 2) + 1;
                   std::string last = t.substr(row);
                   const std::size_t skipped = last.rfind(',');
                   last.replace(skipped - 1, 1, "1");
                   return t.substr(0, row) + last;
                 }),
                 "nothing can overflow");
  expect_refused(losses([](std::string t) {
                   const std::size_t at = t.find(",0.001,");
                   return t.replace(at, 7, ",0.002,");
                 }),
                 "learning rate");
  expect_refused(
      losses([](const std::string& t) { return with_times(t, [](int, double) { return 0.0; }); }),
      "must be more than 0");
}

// Of 12 timed steps the 6 slowest ones are cut, and the deck, the plan and the proof are not.
TEST_F(Forged, LossesThatWereCutAreRefused) {
  expect_refused(
      [](Json& r, std::string& losses) {
        std::size_t at = 0;
        for (int line = 0; line <= warmup + steps / 2; ++line) at = losses.find('\n', at) + 1;
        losses.resize(at);
        r["deck"]["run"]["steps"] = steps / 2;
        r["step_seconds"]["timed_total"] = r["step_seconds"]["timed_total"].get<double>() / 2;
      },
      "measured calls of all_gather");
}

TEST_F(Forged, RunsHaveATimeAndAName) {
  expect_refused("/run/id", "mine", "run: id");
  expect_refused("/run/started", "yesterday", "is not a time");
  expect_refused("/run/ended", "2999-01-01T00:00:00Z", "in the future");
  expect_refused([](Json& r, std::string&) { r["run"]["started"] = "2999-01-01T00:00:00Z"; },
                 "the time of all steps");
  expect_refused([](Json& r, std::string&) { r.erase("run"); }, "/run/id is missing");
  expect_refused("/binaries", Json::object(), "has no hash");
}

// Scales all times of a report alike, so that all figures agree.
void scale_all_times(Json& r, std::string& losses, double factor) {
  const auto scale = [&](Json& json, double by) {
    if (json.is_number()) json = json.get<double>() * by;
  };
  losses = with_times(losses, [&](int, double s) { return s * factor; });
  scale(r["fom"]["value"], 1 / factor);
  for (Json* times :
       {&r["step_seconds"], &r["seconds_per_step"], &r["slowest_rank"]["seconds_per_step"]})
    for (Json& time : *times) scale(time, factor);
  scale(r["slowest_rank"]["own_seconds_per_step"], factor);
  for (const char* list : {"rank_steps", "host_steps"})
    for (Json& one : r[list]) {
      for (Json& time : one["own_seconds"]) scale(time, factor);
      scale(one["waiting_caused_per_step"], factor);
    }
  for (Json& calls : r["collectives"]) {
    for (const char* time : {"p50_s", "p99_s", "late_s"}) scale(calls[time], factor);
    scale(calls["bus_gb_per_s"], 1 / factor);
  }
  for (const char* way : {"device_to_host", "host_to_device"}) {
    Json& copies = r["host_link"][way];
    for (const char* time : {"seconds_per_step", "exposed_seconds_per_step"})
      scale(copies[time], factor);
    scale(copies["gb_per_s"], 1 / factor);
  }
  scale(r["energy"]["seconds"], factor);
  for (const char* name : {"error", "prediction", "mfu", "hfu"}) r.erase(name);
}

// A report that was made up as a whole is beyond a verification (docs/run-rules.md), unless it
// claims what no machine can do.
TEST_F(Forged, WhatNoMachineCanDoIsRefused) {
  const auto scaled = [](double factor) {
    return [factor](Json& r, std::string& losses) { scale_all_times(r, losses, factor); };
  };
  EXPECT_EQ(verify(scaled(0.5)).status, 0) << verify(scaled(0.5)).out;
  expect_refused(scaled(1e-6), "the matrix products, in TFLOP/s,");
  expect_refused(scaled(1e-6), "the memory traffic of optimizer, in GB/s,");
  expect_refused("/collectives/all_gather/bus_gb_per_s", 1e9, "what memory carries");
}

}  // namespace
}  // namespace shardmark::test::forged_report_test
