// SPDX-License-Identifier: Apache-2.0
// The same for figures beside the times: proofs, prediction, energy, plan, memory, checkpoints,
// losses and identity; and for times that no machine reaches.
#include <iomanip>
#include <sstream>

#include <tests/miniapp/tools/submission/checks/forged.hpp>

namespace shardmark::test::forged_figures_test {
namespace {

TEST_F(Forged, TheProofIsRecomputed) {
  expect_refused("/proof/timed_steps", forged_steps + 1, "timed steps of the proof");
  expect_refused("/proof/proved_steps", 0, "proved steps");
  expect_refused("/proof/cost", 1e6, "the time of the proof");
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
  expect_refused(
      [](Json& r, std::string&) {
        r["prediction"]["hfu"] = 0.25;
        r["hfu"] = 0.75;
      },
      "hfu: the report says");
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
  expect_refused("/energy/seconds", 1e6, "the span of the energy");
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
  expect_refused("/memory/device/at", "step1", "the event of the peak of device memory");
  expect_refused("/memory/system/rss_peak", std::int64_t{1} << 50, "resident memory");
  expect_refused("/checkpoints/written", 7, "checkpoints written");
  expect_refused("/checkpoints/written_bytes", 7, "fewer than their states");
  expect_refused("/checkpoints/blocked_s", 0.0, "blocked_s");
}

// A check that did not pass says so in one of three words, and a run that ended VALID has no reason
// to be INVALID.
TEST_F(Forged, ChecksHaveTheStateThatTheyHad) {
  expect_refused("/checks/0/state", "passed", "is no state of a check");
  expect_refused("/checks/0/state", "not applicable", "the state of the check");
  expect_refused("/invalid_reasons", "values: wrong", "invalid_reasons");
}

TEST_F(Forged, PhasesOfAnEnergyThatNobodyReadAreRefused) {
  const auto phase = [](const char* name, const Json& value) {
    return [=](Json& r, std::string&) {
      Json& node = r["energy"]["nodes"][0];
      node["counters"] = Json::array();
      node["phases"]["forward"][name] = value;
    };
  };
  expect_refused(phase("count", 3), "forward counts 3 times");
  expect_refused(phase("count", -1), "forward counts -1 times");
  expect_refused(phase("seconds", 1e-6), "0 counters read");
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
        for (int line = 0; line <= forged_warmup + forged_steps / 2; ++line)
          at = losses.find('\n', at) + 1;
        losses.resize(at);
        r["deck"]["run"]["steps"] = forged_steps / 2;
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
  if (r.contains("parameter_tokens_per_s")) scale(r["parameter_tokens_per_s"], 1 / factor);
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
  for (Json& reason : r["unofficial_reasons"])
    if (const std::string text = reason; text.find(" s timed") != std::string::npos) {
      std::ostringstream seconds;
      seconds << std::fixed << std::setprecision(1)
              << r["step_seconds"]["timed_total"].get<double>();
      reason = seconds.str() + text.substr(text.find(" s timed"));
    }
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

// Each edit keeps rates and the figure of merit right, so that only times contradict it.
TEST(ForgedStorage, TimesThatTheRunDidNotTakeAreRefused) {
  const Workplace place;
  const std::string deck = place.deck(
      3, {{"run", {{"compute", "none"}}}, {"checkpoint", {{"dir", "ckpt"}, {"benchmark", 4}}}});
  const Outcome ran = run({.args = {"run", deck, "--out", place.out()}, .ranks = 2});
  ASSERT_EQ(ran.status, 0) << ran.out << ran.err;
  ASSERT_EQ(run({.args = {"submit", place.out(), "--out", place.path("a.zip")}}).status, 0);
  const auto verify = [&](const std::function<void(Json & benchmark)>& change) {
    ArchiveFiles files = read_archive(place.path("a.zip"));
    change_run(files, "runs/1", [&](Json& r, std::string&) {
      Json& b = r["checkpoints"]["benchmark"];
      change(b);
      for (const std::string way : {"write", "read"}) {
        double seconds = 0;
        for (const Json& s : b.at(way + "_s")) seconds += s.get<double>();
        b[way + "_gib_per_s"] = b["state_bytes"].get<double>() / 1073741824 *
                                static_cast<double>(b.at(way + "_s").size()) / seconds;
      }
    });
    write_archive(place.path("forged.zip"), files);
    const Outcome o = run({.args = {"verify", place.path("forged.zip")}});
    return o.out + (o.status == 1 ? "" : "not refused");
  };
  for (const std::string way : {"write", "read"}) {
    const std::string times = way + "_s", of_ranks = "rank_" + way + "_s";
    EXPECT_NE(verify([&](Json& b) { b[times][0] = 400.0; }).find("all ranks together"),
              std::string::npos);
    EXPECT_NE(verify([&](Json& b) {
                for (const std::string& key : {times, of_ranks})
                  for (Json& s : b[key]) s = s.get<double>() * 1e6;
              }).find("the time of all steps, writes and reads"),
              std::string::npos);
    EXPECT_NE(verify([&](Json& b) {
                for (std::size_t i = 0; i < b[times].size(); ++i)
                  b[times][i] = 1e-6 * (1.0 + 0.1 * static_cast<double>(i));
              }).find("that of the slowest rank of each"),
              std::string::npos);
    EXPECT_NE(verify([&](Json& b) { b[times][1] = b[times][0]; }).find("to the nanosecond"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace shardmark::test::forged_figures_test
