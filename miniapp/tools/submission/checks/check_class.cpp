// SPDX-License-Identifier: Apache-2.0
// The class and the division of a report, decided again by the code that decided them in the run.
#include <fmt/core.h>

#include <core/text.hpp>
#include <io/keys/overrides.hpp>
#include <miniapp/tools/submission/checks/checks.hpp>

namespace shardmark {
namespace {

using Json = nlohmann::json;

// The value of a variable on all ranks, or on one that differs from others; empty if no rank had
// it.
std::string variable(const ReportReader& report, const char* name) {
  if (const Json& all = report.at("/environment"); all.contains(name))
    return ReportReader(all).text(fmt::format("/{}", name));
  for (const ReportReader& rank : report.list("/ranks"))
    if (const std::string at = fmt::format("/environment/{}", name); rank.has(at))
      return rank.text(at);
  return "";
}

RunEnd reported_end(const ReportReader& report) {
  RunEnd end;
  end.timed_s = report.number("/step_seconds/timed_total");
  end.stopped = report.has("/stopped");
  if (!report.has("/checkpoints/benchmark")) return end;
  end.write_s = report.numbers("/checkpoints/benchmark/write_s");
  end.cached = report.at("/checkpoints/benchmark/page_cache_dropped") != true;
  end.node_memory_bytes = report.integer("/checkpoints/benchmark/node_memory_bytes");
  return end;
}

ClassFacts reported_facts(const RunFacts& run) {
  const ReportReader& report = run.report;
  ClassFacts facts = facts_of(run.planned.loaded, std::nullopt, &run.planned.program,
                              static_cast<int>(report.integer("/profile/ranks_per_node")));
  facts.used = reported_deck(report);  // the plan was made with layers and data of its own
  if (report.has("/checkpoints/resumed_from"))
    facts.resumed_from = report.text("/checkpoints/resumed_from");
  if (const std::string fault = variable(report, "SHARDMARK_FAULT"); !fault.empty())
    facts.fault = "SHARDMARK_FAULT=" + fault;
  facts.end = reported_end(report);
  return facts;
}

// A value that names a file is replaced by the file's content in the deck.
bool names_a_file(const Override& set) {
  return set.value.is_string() &&
         (set.key == "deepspeed" || set.key == "model" || set.key == "model.config" ||
          set.key.ends_with("deepspeed_config_file"));
}

// Whoever restores the text of a deck must forget what --set did to it. What was set below a file
// that was named later is gone.
void check_overrides(const ReportReader& report, Findings& findings) {
  const Json& deck = report.at("/deck");
  std::vector<Override> sets;
  std::string text;
  for (const Json& argument : report.at("/overrides")) {
    const Override set = parse_override(argument.get<std::string>());
    text += " --set " + argument.get<std::string>();
    if (!names_a_file(set)) {
      sets.push_back(set);
      continue;
    }
    std::erase_if(sets, [&](const Override& before) {
      return before.key == set.key || before.key.starts_with(set.key + ".");
    });
  }
  Json again = deck;
  for (const Override& set : sets) apply_override(again, set);
  if (again != deck)
    findings.refuse(fmt::format("overrides: the deck has other values than{} gives it", text));
}

}  // namespace

UsedDeck reported_deck(const ReportReader& report) {
  const Json& deck = report.at("/deck");
  if (deck.value(Json::json_pointer("/data/source"), Json()) != "file") return {deck, std::nullopt};
  return {deck, FileIdentity{report.text("/data/hash"), report.integer("/data/bytes")}};
}

RunClass check_class(const RunFacts& facts, Findings& findings) {
  const ReportReader& report = facts.report;
  check_overrides(report, findings);
  const RunClass own = class_of(reported_facts(facts));
  const std::string stated = report.text("/class");
  const std::string judged = own.official() ? "official" : "unofficial";
  if (stated == "official")
    for (const std::string& reason : own.reasons) findings.refuse("class official: " + reason);
  else
    findings.compare("class", stated, judged);
  const auto joined = [](const Json& list) {
    return join(list.get<std::vector<std::string>>(), "; ");
  };
  findings.compare("unofficial_reasons", joined(report.at("/unofficial_reasons")),
                   join(own.reasons, "; "));
  findings.compare("division", report.text("/division/name"),
                   std::string(to_string(own.division.division)));
  findings.compare("reasons of the division", joined(report.at("/division/reasons")),
                   join(own.division.reasons, "; "));
  return own;
}

}  // namespace shardmark
