// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <ctime>
#include <set>

#include <fmt/core.h>

#include <core/error.hpp>
#include <io/deck/shipped_decks.hpp>
#include <io/files/hash.hpp>
#include <miniapp/measure/reference.hpp>
#include <miniapp/measure/verdict.hpp>
#include <miniapp/report/report_provenance.hpp>
#include <miniapp/tools/submission/checks/checks.hpp>
#include <miniapp/tools/submission/verify.hpp>

namespace shardmark {
namespace {

using Json = nlohmann::json;

/// One verification: the parts of a report are looked at one after another.
class Verification {
 public:
  Verification(const SubmittedRun& run, VerifiedRun& found)
      : run_(run), facts_(run.report), found_(found) {}

  // A part that cannot be read is a refusal, and the others are still looked at. Without a plan
  // there is nothing to compare with.
  void verify() {
    part([&] { checksum(); });
    part([&] { deck(); });
    if (!part([&] { read_facts(facts_, run_.losses); })) return;
    part([&] { summary(); });
    part([&] { check_plan(facts_, run_.plan, findings_); });
    part([&] { check_collectives(facts_, findings_); });
    part([&] { check_memory(facts_, findings_); });
    part([&] { check_losses(facts_, findings_); });
    part([&] { verdict(); });
    part([&] { run_class(); });
    part([&] { figure_of_merit(); });
    for (const auto& check : {check_step_times, check_collective_times, check_copies, check_proof,
                              check_replay, check_speed, check_prediction, check_disturbances,
                              check_comms_log, check_energy, check_checkpoints, check_environment})
      part([&] { check(facts_, findings_); });
    part([&] { check_identity(facts_, std::time(nullptr), findings_); });
    part([&] { reference(); });
  }
  std::vector<std::string> refusals() { return findings_.take(); }

 private:
  template<class Part>
  bool part(Part look) {
    try {
      look();
      return true;
    } catch (const ReportError& e) {
      refuse(e.what());
    } catch (const Json::exception&) {
      refuse("report.json: a figure has another form than a report gives it");
    } catch (const Error& e) {
      refuse(fmt::format("the plan cannot be made again: {}", e.what()));
    }
    return false;
  }

  void refuse(std::string text) { findings_.refuse(std::move(text)); }

  // What tables say of the run.
  void summary() {
    const Program& program = planned_.program;
    found_.mark = run_mark(run_);
    found_.deck_hash = report_.text("/deck_hash");
    found_.date = report_.text("/run/ended").substr(0, 10);
    found_.parameters = program.model.parameters;
    found_.tokens_per_step =
        program.batch.global * std::max<std::int64_t>(1, planned_.loaded.deck.model.sequence);
    std::set<std::string> hosts;
    for (const ReportReader& rank : report_.list("/ranks")) hosts.insert(rank.text("/host"));
    found_.nodes = static_cast<int>(hosts.size());
    found_.processor = report_.text("/ranks/0/processor");
  }

  void checksum() {
    const Json& checksum = report_.at("/checksum");
    const Json now = report_checksum(run_.report, run_.losses);
    for (const char* file : {"report", "losses"})
      if (checksum.value(file, Json()) != now.at(file))
        refuse(fmt::format("{} was changed after the run: its checksum is wrong",
                           file == std::string_view("report") ? report_file : losses_file));
  }

  void deck() {
    const Json& deck = report_.at("/deck");
    if (Json::parse(run_.deck, nullptr, false) != deck)
      refuse("deck.json is not the deck of the report");
    findings_.compare("deck_hash", report_.text("/deck_hash"), hash_hex(deck.dump(2, ' ', true)));
    if (deck.contains("name"))
      findings_.compare("name", report_.text("/name"), report_.text("/deck/name"));
  }

  // The rules of VALID and of official that follow from the losses and the deck, applied again.
  void verdict() {
    const std::string ended = report_.text("/result");
    const bool stopped = facts_.was_stopped();
    if (ended != "VALID" || stopped)
      refuse(
          fmt::format("result: the run ended {}{}; only a VALID run that was not stopped can be "
                      "handed in",
                      ended, stopped ? " (" + report_.text("/stopped") + ")" : ""));
    Result result;
    result.rows = facts_.rows;
    if (report_.has("/stopped")) result.stopped = report_.text("/stopped");
    judge(planned_.loaded.deck, planned_.program, {}, result);
    for (const Check& check : result.checks)
      if (check.state == Check::State::fail) refuse(check.name + ": " + check.detail);
    // What these checks say follows from the losses alone.
    const std::set<std::string> of_losses{"finite", "loss_drop", "expect.loss", "updates"};
    std::set<std::string> names;
    const std::string reasons = report_.text("/invalid_reasons");
    if (ended == "VALID" && !stopped && !reasons.empty())
      refuse("invalid_reasons: a run that ended VALID has none, and the report says " + reasons);
    for (const ReportReader& one : report_.list("/checks")) {
      const std::string state = one.text("/state");
      names.insert(one.text("/name"));
      for (const Check& again : result.checks)
        if (again.name == one.text("/name") && of_losses.contains(again.name)) {
          findings_.compare("the check " + again.name, one.text("/detail"), again.detail);
          findings_.compare("the state of the check " + again.name, state,
                            std::string(to_string(again.state)));
        }
      if (state == to_string(Check::State::fail)) refuse("a check failed: " + one.text("/name"));
      if (state != to_string(Check::State::pass) && state != to_string(Check::State::fail) &&
          state != to_string(Check::State::not_applicable))
        refuse(
            fmt::format("the check {}: \"{}\" is no state of a check", one.text("/name"), state));
    }
    for (const Check& check : result.checks)
      if (!names.contains(check.name)) refuse("the report has no check " + check.name);
  }

  void run_class() {
    const RunClass own = check_class(facts_, findings_);
    found_.division = own.division;
    found_.official = own.official();
    found_.reasons = own.reasons;
    found_.used = reported_deck(report_);
  }

  void figure_of_merit() {
    found_.fom_name = report_.text("/fom/name");
    found_.fom = report_.number("/fom/value");
    found_.ranks = static_cast<int>(report_.integer("/world"));
    if (const std::string reads = "/checkpoints/benchmark/read_gib_per_s"; report_.has(reads))
      found_.read_gib_per_s = report_.number(reads);
    check_figure_of_merit(facts_, findings_);
  }

  void reference() {
    const UsedDeck used = reported_deck(report_);
    const auto check = check_reference({used.text, planned_.loaded.deck, planned_.program,
                                        facts_.rows, report_.at("/state_hash"), used.data});
    if (check && check->state == Check::State::fail) refuse("reference answers: " + check->detail);
  }

  const SubmittedRun& run_;
  RunFacts facts_;
  const ReportReader& report_ = facts_.report;
  const Replanned& planned_ = facts_.planned;
  VerifiedRun& found_;
  Findings findings_;
};

}  // namespace

VerifiedRun verify_run(const SubmittedRun& run) {
  VerifiedRun found;
  found.folder = run.folder;
  if (run.report.contains("name") && run.report["name"].is_string())
    found.name = run.report["name"];
  Verification verification(run, found);
  verification.verify();
  found.refusals = verification.refusals();
  return found;
}

std::vector<VerifiedRun> verify_submission(const Submission& submission) {
  (void)required_decks();  // without them every division would seem to be claimed wrongly
  std::vector<VerifiedRun> found;
  const auto wrong = compare_runs(submission);
  for (std::size_t i = 0; i < submission.runs.size(); ++i) {
    found.push_back(verify_run(submission.runs[i]));
    auto& refusals = found.back().refusals;
    refusals.insert(refusals.end(), wrong[i].begin(), wrong[i].end());
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
