// SPDX-License-Identifier: Apache-2.0
#include <set>

#include <core/printable.hpp>
#include <io/files/hash.hpp>
#include <miniapp/measure/result.hpp>
#include <miniapp/submission/checks/checks.hpp>

namespace shardmark {

void check_plan(const RunFacts& facts, const std::string& plan, Findings& findings) {
  const ReportReader& report = facts.report;
  const Program& p = facts.planned.program;
  findings.compare("plan_hash", report.text("/plan_hash"), hash_hex(facts.planned.text));
  if (plan != facts.planned.text) findings.refuse("plan.txt is not the plan of the deck");
  findings.compare<std::int64_t>("stage", report.integer("/stage"), p.stage);
  findings.compare("schedule", report.text("/schedule"), std::string(to_string(p.schedule)));
  findings.compare("reductions", report.text("/reductions"), std::string(to_string(p.reductions)));
  findings.compare("parameters", report.integer("/parameters"), p.model.elems);
  findings.compare("batch", report.integer("/batch/train_batch_size"), p.batch.global);
  findings.compare_number("volume_per_parameter", report.number("/volume_per_parameter"),
                          volume_per_parameter(p, steady_volume(p)));
}

void check_collectives(const RunFacts& facts, Findings& findings) {
  const ReportReader& report = facts.report;
  const Program& program = facts.planned.program;
  std::set<std::string> reported;
  for (const auto& item : report.at("/collectives").items()) reported.insert(item.key());
  for (std::size_t g = 0; g < program.groups.size(); ++g)
    for (const auto& [op, traffic] : volume_of_runs(program, facts.runs, static_cast<int>(g))) {
      const std::string name = collective_name(program, {static_cast<int>(g), op});
      reported.erase(name);
      for (const char* side : {"predicted", "measured"}) {
        const std::string at = "/collectives/" + name + "/" + side;
        findings.compare(fmt::format("{} calls of {}", side, name), report.integer(at + "/calls"),
                         traffic.calls);
        findings.compare(fmt::format("{} elements of {}", side, name),
                         report.integer(at + "/elems"), traffic.elems);
        findings.compare(fmt::format("{} bytes of {}", side, name), report.integer(at + "/bytes"),
                         traffic.bytes);
      }
    }
  for (const std::string& name : reported)
    findings.refuse(fmt::format("collectives: the plan has no {}", printable(name)));
}

}  // namespace shardmark
