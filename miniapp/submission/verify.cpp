// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/core.h>

#include <core/error.hpp>
#include <core/plan/interpret/footprint.hpp>
#include <core/plan/interpret/planned_runs.hpp>
#include <core/printable.hpp>
#include <io/files/hash.hpp>
#include <miniapp/measure/figures_of_merit.hpp>
#include <miniapp/measure/timings.hpp>
#include <miniapp/measure/verdict.hpp>
#include <miniapp/submission/losses_reader.hpp>
#include <miniapp/submission/reference.hpp>
#include <miniapp/submission/replan.hpp>
#include <miniapp/submission/verify.hpp>

namespace shardmark {
namespace {

using Json = nlohmann::json;

// Relative; a report is printed with all digits, so only the order of operations may differ.
constexpr double rounding = 1e-9;
// Part of the steps' own time that may be missing in the timed span, whose barriers lie between
// steps.
constexpr double span_slack = 0.05;
bool close(double a, double b) {
  return std::abs(a - b) <= rounding * std::max({1.0, std::abs(a), std::abs(b)});
}

/// One verification: the parts of a report are looked at one after another.
class Verification {
 public:
  Verification(const SubmittedRun& run, VerifiedRun& found)
      : run_(run), report_(run.report), found_(found) {}

  void verify() {
    deck();
    plan();
    collectives();
    memory();
    losses();
    verdict();
    figure_of_merit();
    environment();
    reference();
  }

 private:
  void refuse(std::string text) { found_.refusals.push_back(std::move(text)); }

  template<class T>
  void compare(const std::string& what, const T& reported, const T& recomputed) {
    if (reported != recomputed)
      refuse(
          fmt::format("{}: the report says {}, recomputed it is {}", what, reported, recomputed));
  }

  void compare_number(const std::string& what, double reported, double recomputed) {
    if (!close(reported, recomputed))
      refuse(
          fmt::format("{}: the report says {}, recomputed it is {}", what, reported, recomputed));
  }

  void deck() {
    const Json& deck = report_.at("/deck");
    if (Json::parse(run_.deck, nullptr, false) != deck)
      refuse("deck.json is not the deck of the report");
    compare("deck_hash", report_.text("/deck_hash"), hash_hex(deck.dump(2, ' ', true)));
    found_.division = division_of(deck);
  }

  void plan() {
    planned_ = replan(report_);
    const Program& p = planned_.program;
    compare("plan_hash", report_.text("/plan_hash"), hash_hex(planned_.text));
    if (run_.plan != planned_.text) refuse("plan.txt is not the plan of the deck");
    compare<std::int64_t>("stage", report_.integer("/stage"), p.stage);
    compare<std::string>("schedule", report_.text("/schedule"), std::string(to_string(p.schedule)));
    compare<std::string>("reductions", report_.text("/reductions"),
                         std::string(to_string(p.reductions)));
    compare("parameters", report_.integer("/parameters"), p.model.elems);
    compare("batch", report_.integer("/batch/train_batch_size"), p.batch.global);
    compare_number("volume_per_parameter", report_.number("/volume_per_parameter"),
                   volume_per_parameter(p, steady_volume(p)));
  }

  void collectives() {
    std::vector<bool> skipped;
    for (const LossRow& row : rows()) skipped.push_back(row.skipped);
    runs_ = planned_runs(planned_.program, skipped);
    std::set<std::string> reported;
    for (const auto& item : report_.at("/collectives").items()) reported.insert(item.key());
    for (std::size_t g = 0; g < planned_.program.groups.size(); ++g)
      for (const auto& [op, traffic] :
           volume_of_runs(planned_.program, runs_, static_cast<int>(g))) {
        const std::string name = collective_name(planned_.program, {static_cast<int>(g), op});
        reported.erase(name);
        for (const char* side : {"predicted", "measured"}) {
          const std::string at = "/collectives/" + name + "/" + side;
          compare(fmt::format("{} calls of {}", side, name), report_.integer(at + "/calls"),
                  traffic.calls);
          compare(fmt::format("{} elements of {}", side, name), report_.integer(at + "/elems"),
                  traffic.elems);
          compare(fmt::format("{} bytes of {}", side, name), report_.integer(at + "/bytes"),
                  traffic.bytes);
        }
      }
    for (const std::string& name : reported)
      refuse(fmt::format("collectives: the plan has no {}", printable(name)));
  }

  void memory() {
    const auto allocated = allocated_bytes(planned_.program);
    const Footprint live = footprint(planned_.program, segments_of_runs(runs_));
    for (const Tier t : {Tier::device, Tier::host}) {
      const std::string at = fmt::format("/memory/{}/", to_string(t));
      for (const char* side : {"predicted_peak", "measured_peak"})
        compare(fmt::format("{} of {} memory", side, to_string(t)), report_.integer(at + side),
                allocated[t]);
      compare(fmt::format("live_peak of {} memory", to_string(t)),
              report_.integer(at + "live_peak"), live.tiers[t].peak_bytes);
    }
    if (report_.integer("/memory/system/excess") > report_.integer("/memory/system/allowance"))
      refuse("memory of the system: the excess is larger than the allowance");
  }

  const std::vector<LossRow>& rows() {
    if (rows_.empty()) rows_ = read_losses(run_.losses);
    return rows_;
  }

  void losses() {
    const RunSpec& run = planned_.loaded.deck.run;
    if (report_.has("/checkpoints/resumed_from"))
      return refuse("the run resumed from a checkpoint: hand in a run that was not interrupted");
    if (static_cast<std::int64_t>(rows().size()) != run.warmup + run.steps)
      refuse(fmt::format("losses.csv has {} steps, the deck asks for {}", rows().size(),
                         run.warmup + run.steps));
    for (std::size_t i = 1; i < rows().size(); ++i)
      if (rows()[i].step != rows()[i - 1].step + 1) return refuse("losses.csv: steps are missing");
    if (rows().empty()) return;
    if (report_.has("/loss/first")) {
      compare_number("first loss", report_.number("/loss/first"), rows().front().loss);
      compare_number("last loss", report_.number("/loss/last"), rows().back().loss);
    }
    std::vector<double> timed;
    double sum = 0;
    for (auto i = static_cast<std::size_t>(run.warmup); i < rows().size(); ++i) {
      timed.push_back(rows()[i].seconds);
      sum += rows()[i].seconds;
    }
    compare_number("p50 of the steps", report_.number("/step_seconds/p50"), percentile(timed, 0.5));
    compare_number("p99 of the steps", report_.number("/step_seconds/p99"),
                   percentile(timed, 0.99));
    if (report_.number("/step_seconds/timed_total") < (1 - span_slack) * sum)
      refuse(fmt::format("timed_total is {} s, but the timed steps of losses.csv took {} s",
                         report_.number("/step_seconds/timed_total"), sum));
  }

  // The rules of VALID and of official that follow from the losses and the deck, applied again.
  void verdict() {
    compare<std::string>("result", report_.text("/result"), "VALID");
    Result result;
    result.rows = rows();
    result.timed_s = report_.number("/step_seconds/timed_total");
    if (report_.has("/stopped")) result.stopped = report_.text("/stopped");
    if (report_.has("/checkpoints/benchmark"))
      result.checkpoints.cached = report_.at("/checkpoints/benchmark/page_cache_dropped") != true;
    judge(planned_.loaded.deck, planned_.program, {}, result);
    for (const Check& check : result.checks)
      if (check.state == Check::State::fail) refuse(check.name + ": " + check.detail);
    std::set<std::string> names;
    for (const Json& check : report_.at("/checks")) {
      const ReportReader one(check);
      names.insert(one.text("/name"));
      if (one.text("/state") == "fail") refuse("a check failed: " + one.text("/name"));
    }
    for (const Check& check : result.checks)
      if (!names.contains(check.name)) refuse("the report has no check " + check.name);
    found_.official = report_.text("/class") == "official";
    if (!found_.official) return;
    for (const std::string& reason : result.unofficial) refuse("class official: " + reason);
    if (found_.division.division != Division::as_is)
      for (const std::string& reason : found_.division.reasons)
        refuse("class official, with another deck than the shipped one: " + reason);
  }

  void figure_of_merit() {
    found_.fom_name = report_.text("/fom/name");
    found_.fom = report_.number("/fom/value");
    if (found_.fom_name != "tokens_per_s") return storage();
    const Deck& deck = planned_.loaded.deck;
    const auto warmup =
        std::min<std::size_t>(rows().size(), static_cast<std::size_t>(deck.run.warmup));
    const auto timed = std::count_if(rows().begin() + static_cast<std::ptrdiff_t>(warmup),
                                     rows().end(), [](const LossRow& row) { return !row.skipped; });
    const double tokens = static_cast<double>(
        planned_.program.batch.global * std::max<std::int64_t>(1, deck.model.sequence) * timed);
    compare_number("tokens_per_s", found_.fom,
                   tokens / report_.number("/step_seconds/timed_total"));
  }

  void storage() {
    std::vector<double> seconds;
    for (const Json& s : report_.at("/checkpoints/benchmark/write_s"))
      seconds.push_back(s.is_number() ? s.get<double>() : 0);
    compare_number(found_.fom_name, found_.fom,
                   mean_gib_per_s(report_.integer("/checkpoints/benchmark/state_bytes"), seconds));
  }

  void environment() {
    const std::int64_t world = report_.integer("/world");
    found_.ranks = static_cast<int>(world);
    compare<std::int64_t>("ranks listed", static_cast<std::int64_t>(report_.at("/ranks").size()),
                          world);
    for (const auto& item : report_.at("/environment").items())
      if (item.key() == "SHARDMARK_FAULT")
        refuse("SHARDMARK_FAULT was set: the run was broken on purpose");
  }

  void reference() {
    const auto check = check_reference({report_.at("/deck"), planned_.loaded.deck, planned_.program,
                                        rows(), report_.at("/state_hash")});
    if (check && check->state == Check::State::fail) refuse("reference answers: " + check->detail);
  }

  const SubmittedRun& run_;
  ReportReader report_;
  VerifiedRun& found_;
  Replanned planned_;
  SegmentRuns runs_;  // how often each segment of the plan had to run
  std::vector<LossRow> rows_;
};

}  // namespace

VerifiedRun verify_run(const SubmittedRun& run) {
  VerifiedRun found;
  found.folder = run.folder;
  if (run.report.contains("name") && run.report["name"].is_string())
    found.name = run.report["name"];
  try {
    Verification(run, found).verify();
  } catch (const ReportError& e) {
    found.refusals.emplace_back(e.what());
  } catch (const Json::exception&) {
    found.refusals.emplace_back("report.json: a figure has another form than a report gives it");
  } catch (const Error& e) {
    found.refusals.push_back(fmt::format("the plan cannot be made again: {}", e.what()));
  }
  return found;
}

std::vector<std::string> empty_entries(const Submission& submission) {
  std::vector<std::string> names;
  const Json empty = "";
  for (const std::string& name : form_entries)
    if (submission.form.value(name, empty) == empty && name != "changes" && name != "remarks")
      names.push_back(name);
  return names;
}

}  // namespace shardmark
