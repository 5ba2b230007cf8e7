// SPDX-License-Identifier: Apache-2.0
// Rule: the files of a run agree with its printed report, with its plan, and with other runs.
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include <gtest/gtest.h>

#include <tests/support/pattern.hpp>
#include <tests/support/program.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test::output_files_test {
namespace {

namespace fs = std::filesystem;

using Row = std::vector<std::string>;

std::vector<Row> rows_of(const std::string& csv) {
  std::vector<Row> rows;
  for (const std::string& line : lines_of(csv)) {
    std::istringstream fields(line);
    Row& row = rows.emplace_back();
    for (std::string field; std::getline(fields, field, ',');) row.push_back(field);
  }
  return rows;
}

// Rows without the last column, which is a time.
std::string numbers(const std::string& csv) {
  std::string text;
  for (const std::string& line : lines_of(csv)) text += line.substr(0, line.rfind(',')) + "\n";
  return text;
}

std::string capture(const std::string& text, const std::string& pattern, int group = 1) {
  const Match match = find_match(text, pattern);
  return match.empty() ? "no " + pattern : match[static_cast<std::size_t>(group)];
}

Outcome train(const Workplace& place, int ranks = 2, const std::vector<std::string>& more = {}) {
  Outcome outcome = run({.args = place.run_args(more), .ranks = ranks});
  EXPECT_EQ(outcome.status, 0) << outcome.err << outcome.out;
  return outcome;
}

// A counter that stands still gives no joules, but shows which phases there were.
TEST(Report, HasNoJoulesOfPhasesThatACounterDoesNotResolve) {
  for (const int ranks : {1, 2, 3, 4}) {
    SCOPED_TRACE(ranks);
    const Workplace place;
    const std::string deck = place.deck(
        3, {{"run", {{"warmup", 1}}}, {"checkpoint", {{"dir", "states"}, {"every", 2}}}});
    const std::string zone = place.path("sys/class/powercap/intel-rapl:0");
    fs::create_directories(zone);
    for (const auto& [file, text] : {std::pair("name", "package-0"), {"energy_uj", "1"}})
      place.write("sys/class/powercap/intel-rapl:0/" + std::string(file), text);
    const Outcome outcome = run({.args = place.run_args(),
                                 .ranks = ranks,
                                 .environment = {{"SHARDMARK_SYSFS", place.path("")}}});
    ASSERT_EQ(outcome.status, 0) << outcome.err << outcome.out;
    EXPECT_NE(outcome.out.find("no joules of forward by powercap: "), std::string::npos);
    const Json report = place.report();
    const Json& energy = report.at("energy");
    const std::int64_t steps = report.at("deck").at("run").at("steps");
    for (const char* phase : {"forward", "backward", "optimizer"}) {
      EXPECT_TRUE(energy.at("phases").at(phase).at("joules").is_null()) << phase;
      const Json& spans = energy.at("nodes").at(0).at("phases").at(phase);
      EXPECT_EQ(spans.at("count"), steps) << phase;
      EXPECT_GT(spans.at("seconds"), 0) << phase;
    }
    EXPECT_EQ(energy.at("nodes").size(), 1U) << "one rank reads";
    const Json& checkpoints = energy.at("nodes").at(0).at("phases").at("checkpoint");
    EXPECT_EQ(checkpoints.at("count"), (steps + 1) / 2)
        << "every second step, counted from warm-up";
    EXPECT_EQ(energy.at("unresolved").size(), 4U) << energy.at("unresolved");
    EXPECT_NE(read_text(place.out() + "/report.html").find("no joules of optimizer by powercap"),
              std::string::npos);
  }
}

TEST(Report, AgreesWithWhatWasPrinted) {
  const Workplace place;
  const std::string deck = place.deck();
  const std::string out = train(place).out;
  const Json report = place.report();
  EXPECT_EQ(report.at("result"), "VALID");
  char fom[32];
  std::snprintf(fom, sizeof fom, "%g", report.at("fom").at("value").get<double>());
  EXPECT_EQ(capture(out, "FOM tokens_per_s=(.*)"), fom);
  for (const char* state : {"param", "momentum", "variance"})
    EXPECT_EQ(capture(out, std::string("State hashes:.* ") + state + " ([0-9a-f]{16})"),
              report.at("state_hash").at(state).get<std::string>());
  const Json& device = report.at("memory").at("device");
  const std::string arena = "device +arena +([0-9]+) +([0-9]+)";
  EXPECT_EQ(capture(out, arena, 1), device.at("predicted_peak").dump());
  EXPECT_EQ(capture(out, arena, 2), device.at("measured_peak").dump());
  EXPECT_EQ(capture(out, "device +live peak +([0-9]+) +-"), device.at("live_peak").dump());
  for (const auto& [category, bytes] : device.at("predicted_by_category").items())
    EXPECT_EQ(capture(out, "device +" + category + " +([0-9]+) +-"), bytes.dump());
  for (const auto& [op, figures] : report.at("collectives").items())
    EXPECT_EQ(capture(out, op + " +([0-9]+) "), figures.at("measured").at("calls").dump());
  for (const Json& check : report.at("checks"))
    EXPECT_EQ(capture(out, check.at("name").get<std::string>() + " +(pass|FAIL|not applicable)"),
              check.at("state").get<std::string>());
  EXPECT_EQ(report.at("deck"), Json::parse(read_text(deck)));
  EXPECT_EQ(report.at("ranks").size(), 2U);
}

// A reference loss applies to one global batch and number of steps.
TEST(Report, ComparesALossOnlyWithTheRunItIsGivenFor) {
  const auto state = [](const std::vector<std::string>& sets) {
    const Workplace place;
    place.deck();
    std::vector<std::string> more;
    for (const std::string& set : sets) more.insert(more.end(), {"--set", set});
    const Outcome outcome = run({.args = place.run_args(more), .ranks = 2});
    return capture(outcome.out, "expect.loss +(pass|FAIL|not applicable)") + " " +
           std::to_string(outcome.status);
  };
  const Workplace place;
  place.deck();
  train(place);
  const Json report = place.report();
  const std::string steps = std::to_string(report.at("deck").at("run").at("steps").get<int>() +
                                           report.at("deck").at("run").value("warmup", 0));
  const std::string batch = report.at("batch").at("train_batch_size").dump();
  const std::vector<std::string> right = {"expect.loss=" + report.at("loss").at("last").dump(),
                                          "expect.tolerance=1e-6"};
  const auto with = [&](std::string key, const std::string& value) {
    std::vector<std::string> sets = right;
    sets.push_back("expect." + key + "=" + value);
    return sets;
  };
  EXPECT_EQ(state(with("steps", steps)), "pass 0");
  EXPECT_EQ(state(with("steps", "1")), "not applicable 0");
  EXPECT_EQ(state(with("train_batch_size", batch)), "pass 0");
  EXPECT_EQ(state(with("train_batch_size", "1000")), "not applicable 0");
  EXPECT_EQ(state({"expect.loss=0.5", "expect.tolerance=0.1", "expect.steps=" + steps}), "FAIL 1");
}

TEST(Report, SaysWhereItRan) {
  const Workplace place;
  place.deck();
  const Outcome outcome = run(
      {.args = place.run_args(), .ranks = 2, .environment = {{"SHARDMARK_NOTE", "first <run>"}}});
  ASSERT_EQ(outcome.status, 0) << outcome.err << outcome.out;
  const Json report = place.report();
  EXPECT_EQ(report.at("environment").at("SHARDMARK_NOTE"), "first <run>");
  EXPECT_NE(outcome.out.find("SHARDMARK_NOTE=first <run>\n"), std::string::npos) << outcome.out;
  for (const Json& rank : report.at("ranks")) {
    EXPECT_GE(rank.at("kernel_threads"), 1);
    EXPECT_GE(rank.at("matmul_threads"), 1);
    for (const char* key : {"host", "cores", "processor"}) {
      const std::string value = rank.at(key);
      EXPECT_FALSE(value.empty()) << key;
      EXPECT_NE(outcome.out.find(value), std::string::npos) << key << " is not printed";
    }
  }
  for (const char* name : {"shardmark", "kokkos", "mpi", "matmul", "compiler", "system"}) {
    const std::string value = report.at("versions").at(name);
    EXPECT_NE(outcome.out.find(value), std::string::npos) << name << " is not printed";
  }
}

TEST(Report, MeasuresEveryCategoryInStrictMode) {
  const Workplace place;
  place.deck();
  const std::string out = train(place, 2, {"--set", "run.memory_mode=strict"}).out;
  const Json report = place.report();
  const Json& device = report.at("memory").at("device");
  EXPECT_EQ(device.at("measured_by_category"), device.at("predicted_by_category"));
  EXPECT_EQ(device.at("measured_peak"), device.at("live_peak"));
  for (const auto& [category, bytes] : device.at("measured_by_category").items())
    EXPECT_EQ(capture(out, "device +" + category + " +[0-9]+ +([0-9]+)"), bytes.dump());
}

TEST(Report, HasThePlanThatThePlanCommandPrints) {
  const Workplace place;
  const std::string deck = place.deck(2);  // all of its steps are equal
  train(place);
  const Json report = place.report();
  const Outcome outcome = run({.args = {"plan", deck, "--ranks", "2", "--format", "json"}});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json plan = Json::parse(outcome.out);
  EXPECT_EQ(plan.at("parameters"), report.at("parameters"));
  EXPECT_EQ(plan.at("partition"), report.at("partition"));
  const Json &planned = plan.at("memory").at("device"), &ran = report.at("memory").at("device");
  EXPECT_EQ(planned.at("arena"), ran.at("measured_peak"));
  EXPECT_EQ(planned.at("peak"), ran.at("live_peak"));
  for (const auto& [op, traffic] : plan.at("volume").at("steady").items())
    EXPECT_EQ(traffic.at("calls").get<int>() * 3,
              report.at("collectives").at(op).at("measured").at("calls").get<int>())
        << op;
}

TEST(Losses, HaveARowForEachStepAndReadBack) {
  const Workplace place;
  place.deck(3, {{"run", {{"warmup", 2}}}});
  train(place);
  const Json report = place.report();
  const auto rows = rows_of(place.losses());
  ASSERT_EQ(rows.size(), 6U);
  EXPECT_EQ(rows[0], (Row{"step", "loss", "grad_norm", "lr", "loss_scale", "skipped", "seconds"}));
  for (std::size_t r = 1; r < rows.size(); ++r) {
    ASSERT_EQ(rows[r].size(), 7U);
    EXPECT_EQ(rows[r][0], std::to_string(r - 1));
    EXPECT_GT(std::strtod(rows[r][6].c_str(), nullptr), 0);
    for (const std::string& field : rows[r]) {  // exactly the digits that are necessary
      char shortest[32];
      const double value = std::strtod(field.c_str(), nullptr);
      const auto end = std::to_chars(std::begin(shortest), std::end(shortest), value).ptr;
      EXPECT_EQ(field, std::string(shortest, end));
    }
  }
  EXPECT_EQ(std::strtod(rows[1][1].c_str(), nullptr), report.at("loss").at("first").get<double>());
  EXPECT_EQ(std::strtod(rows[5][1].c_str(), nullptr), report.at("loss").at("last").get<double>());
}

TEST(OutputFolder, KeepsFilesOfOthers) {
  const Workplace place;
  place.deck();
  fs::create_directories(place.out() + "/plots");
  place.write("out/notes.txt", "mine");
  place.write("out/plots/loss.csv", "mine too");
  place.write("out/report.json", "of the run before");
  const auto before = fs::last_write_time(place.out() + "/notes.txt");
  train(place);
  EXPECT_EQ(read_text(place.out() + "/notes.txt"), "mine");
  EXPECT_EQ(read_text(place.out() + "/plots/loss.csv"), "mine too");
  EXPECT_EQ(fs::last_write_time(place.out() + "/notes.txt"), before);
  EXPECT_EQ(place.report().at("name"), "tiny") << "the report must be this run's";
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(place.out()))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"losses.csv", "notes.txt", "plots", "report.html",
                                             "report.json"}));
}

TEST(OutputFolder, IsNotTouchedByARefusedRun) {
  const Workplace place;
  place.deck(3, {{"memory", {{"device_gib", 0.001}}}});
  EXPECT_EQ(run({.args = place.run_args(), .ranks = 2}).status, 3);
  EXPECT_FALSE(fs::exists(place.out()));
}

// If the folder disappears during the run, the printed figures remain.
TEST(OutputFolder, ThatIsGoneAtTheEndLosesNoFigures) {
  const Workplace place;
  place.deck(3, {{"run", {{"steps", 6}}}, {"comm", {{"delay_ms", 20}}}});
  Program program({.args = place.run_args(), .ranks = 2});
  ASSERT_TRUE(program.wait_for_output("step ", 30));
  fs::remove_all(place.out());
  place.write("out", "a file now");
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.status, 4);
  EXPECT_EQ(lines_of(outcome.err).size(), 1U) << outcome.err;
  EXPECT_NE(outcome.err.find(place.out()), std::string::npos) << outcome.err;
  EXPECT_TRUE(outcome.out.ends_with("\nRESULT=VALID\n")) << outcome.out;
}

TEST(Runs, AreRepeatedBitForBit) {
  const Workplace place;
  place.deck();
  train(place);
  const Json first = place.report();
  const std::string losses = numbers(place.losses());
  train(place);
  const Json second = place.report();
  for (const char* key : {"state_hash", "plan_hash", "deck_hash", "loss"})
    EXPECT_EQ(first.at(key), second.at(key)) << key;
  EXPECT_EQ(numbers(place.losses()), losses);
}

TEST(Runs, AreTheSameAtAllStagesWhenOrdered) {
  std::string losses;
  Json hashes;
  for (int stage = 0; stage < 4; ++stage) {
    const Workplace place;
    place.deck(stage);
    train(place, 2, {"--set", "run.reductions=ordered"});
    if (stage == 0) {
      losses = numbers(place.losses());
      hashes = place.report().at("state_hash");
    }
    EXPECT_EQ(numbers(place.losses()), losses) << "stage " << stage;
    EXPECT_EQ(place.report().at("state_hash"), hashes) << "stage " << stage;
  }
}

// Runs with different seeds must differ, or the two tests above prove nothing.
TEST(Runs, DifferWithTheirSeed) {
  const Workplace place;
  place.deck();
  train(place);
  const Json first = place.report();
  train(place, 2, {"--set", "run.seed=2"});
  EXPECT_NE(first.at("state_hash").at("param"), place.report().at("state_hash").at("param"));
}

}  // namespace
}  // namespace shardmark::test::output_files_test
