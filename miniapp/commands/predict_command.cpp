// SPDX-License-Identifier: Apache-2.0
// `shardmark predict` and `shardmark machine check`, which print pure functions of files.
#include <filesystem>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <core/error.hpp>
#include <core/plan/build/fit_layers.hpp>
#include <io/deck/deck_findings.hpp>
#include <io/deck/deck_reader.hpp>
#include <io/deepspeed/config.hpp>
#include <io/files/durable_file.hpp>
#include <io/files/output_folder.hpp>
#include <io/machine/machine_file.hpp>
#include <miniapp/commands/commands.hpp>
#include <miniapp/predict/prediction.hpp>
#include <miniapp/report/html/prediction_page.hpp>
#include <miniapp/report/predicted_trace.hpp>
#include <miniapp/report/standard_output.hpp>
#include <miniapp/report/trace_file.hpp>
#include <miniapp/run/fit_budget.hpp>
#include <miniapp/sweep/grid.hpp>

namespace shardmark {

namespace {

// Devices of a node, unless the caller says otherwise.
int ranks_per_node(const PredictArguments& a, const Machine& machine) {
  if (a.ranks_per_node > 0) return a.ranks_per_node;
  return machine.node.ranks > 0 ? machine.node.ranks : 1;
}

PredictedPoint predict(Deck deck, const Machine& machine, int ranks, int per_node) {
  const Batch batch = infer_batch(deck.zero, ranks, deck.path);
  Profile profile;
  profile.ranks_per_node = std::min(ranks, per_node);
  apply_fit(deck, batch, ranks, profile, deck_fit_budget(deck));
  return predict_point(deck, machine, ranks, profile.ranks_per_node);
}

// A page, and a trace of the step on the most ranks.
void write_files(const std::string& folder, const Deck& deck, const Machine& machine,
                 const std::vector<PredictedPoint>& points) {
  std::error_code error;  // replace_file says what is wrong
  std::filesystem::create_directories(folder, error);
  replace_file(folder, "prediction.html", prediction_html(deck, machine, points), output_remedy);
  const PredictedPoint& last = points.back();
  replace_file(folder, "prediction-trace.json",
               trace_begin(last.program, deck.name) +
                   trace_events(last.program, {predicted_trace(last.program, last.priced)}, {},
                                machine.name) +
                   trace_end(),
               output_remedy);
}

}  // namespace

ExitStatus machine_check_command(const MachineCheckArguments& a) {
  const Machine machine = read_machine_file(a.file);
  std::string text = fmt::format("{}: {}\n", a.file, standing(machine));
  const std::vector<std::string> said = check_machine(machine);
  for (const std::string& sentence : said) text += fmt::format("  {}\n", sentence);
  if (said.empty()) text += "  nothing is missing, nothing is absurd\n";
  print_out(text);
  return ExitStatus::valid;
}

ExitStatus predict_command(const PredictArguments& a) {
  const Machine machine = read_machine_file(a.machine);
  const LoadedDeck loaded = read_deck(a.deck, a.sets, DeckUse::plan);
  const Deck& deck = loaded.deck;
  std::vector<PredictedPoint> points;
  for (const int ranks : parse_ranks(a.ranks)) {
    require_ranks(machine, a.machine, ranks, ranks_per_node(a, machine));
    points.push_back(predict(deck, machine, ranks, ranks_per_node(a, machine)));
  }
  if (!a.out.empty()) write_files(a.out, deck, machine, points);
  if (a.format == "json") {
    nlohmann::ordered_json json{{"machine", machine.name}, {"deck", deck.name}};
    if (!deck.assumptions.empty()) json["assumptions"] = deck.assumptions;
    json["points"] = nlohmann::ordered_json::array();
    for (const PredictedPoint& p : points) json["points"].push_back(point_json(p));
    json["deck_as_used"] = nlohmann::ordered_json::parse(loaded.used_json);
    print_out(json.dump(2) + "\n");
  } else {
    print_out(note_lines(deck) + prediction_text(deck, machine, points));
  }
  return ExitStatus::valid;
}

}  // namespace shardmark
