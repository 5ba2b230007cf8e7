// SPDX-License-Identifier: Apache-2.0
// A prediction that was made before the run, and how the report compares it with what was measured.
#include <core/percentile.hpp>
#include <miniapp/tools/submission/checks/checks.hpp>

namespace shardmark {
namespace {

// The median over the timed steps that were not proved, or over all if there are none.
double median_step(const RunFacts& facts) {
  const ProofResult proof =
      facts.report.has("/proof") ? reported_proof(facts.report) : ProofResult{};
  std::vector<double> plain, all;
  for (const LossRow& row : facts.timed()) {
    const auto s = std::ssize(all);
    all.push_back(row.seconds);
    if (!is_proved(proof, s)) plain.push_back(row.seconds);
  }
  return percentile(plain.empty() ? all : plain, 0.5);
}

void check_point(const RunFacts& facts, double step_s, Findings& findings) {
  const ReportReader& report = facts.report;
  findings.compare("ranks of the prediction", report.integer("/prediction/ranks"),
                   report.integer("/world"));
  const auto named = [&](const char* name) {
    return Named{fmt::format("the prediction's {}", name),
                 report.number(fmt::format("/prediction/{}", name))};
  };
  findings.is_positive(named("step_s"));
  findings.at_most(named("step_s_low"), named("step_s"));
  findings.at_most(named("step_s"), named("step_s_high"));
  const double tokens =
      static_cast<double>(facts.planned.program.batch.global) *
      static_cast<double>(std::max<std::int64_t>(1, facts.planned.loaded.deck.model.sequence));
  findings.compare_number("tokens_per_s of the prediction",
                          report.number("/prediction/tokens_per_s"), tokens / step_s);
  if (report.has("/prediction/parameters")) {  // reports of older programs have none
    findings.compare("parameters of the prediction", report.integer("/prediction/parameters"),
                     facts.planned.program.model.parameters);
    findings.compare_number("tokens_per_step of the prediction",
                            report.number("/prediction/tokens_per_step"), tokens);
  }
  const double phases = sum_of_phases(report, "/prediction/phases_s");
  findings.at_most({"the sum of the predicted phases", phases}, named("step_s"));
}

}  // namespace

void check_prediction(const RunFacts& facts, Findings& findings) {
  const ReportReader& report = facts.report;
  for (const char* use : {"mfu", "hfu"})
    if (const std::string at = fmt::format("/{}", use); report.has(at)) {
      findings.is_positive({use, report.number(at)});
      findings.at_most({use, report.number(at)}, {"the peak of the machine file", 1});
    }
  if (!report.has("/prediction")) return;
  const double step_s = report.number("/prediction/step_s");
  check_point(facts, step_s, findings);
  if (const double median = median_step(facts); median > 0)
    findings.compare_number("error of the predicted step", report.number("/error/step"),
                            step_s / median - 1);
  for (const char* name : {"forward", "backward", "optimizer", "copies", "exposed"}) {
    const nlohmann::json& error = report.at(fmt::format("/error/{}", name));
    if (error.is_null()) continue;
    const double predicted = report.number(name == std::string_view("exposed")
                                               ? std::string("/prediction/exposed_s")
                                               : fmt::format("/prediction/phases_s/{}", name));
    if (predicted > 0)
      findings.at_most({fmt::format("the measured {} by its error", name),
                        predicted / (1 + error.get<double>())},
                       {"the worst step", report.number("/step_seconds/worst")});
  }
  for (const char* use : {"mfu", "hfu"}) {
    const std::string at = fmt::format("/{}", use), predicted = "/prediction" + at;
    const bool of_older_program = at == "/hfu" && !report.has(predicted);
    if (report.has(at) && !of_older_program)
      findings.compare_number(
          use, report.number(at),
          report.number(predicted) * step_s / report.number("/step_seconds/p50"));
  }
}

}  // namespace shardmark
