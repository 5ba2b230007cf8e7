// SPDX-License-Identifier: Apache-2.0
// `shardmark predict` and `shardmark machine check`, which print pure functions of files.
#include <algorithm>
#include <filesystem>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <core/error.hpp>
#include <core/plan/build/fit_layers.hpp>
#include <io/deck/deck_findings.hpp>
#include <io/deck/deck_reader.hpp>
#include <io/deepspeed/config.hpp>
#include <io/files/durable_file.hpp>
#include <io/machine/machine_file.hpp>
#include <miniapp/commands/commands.hpp>
#include <miniapp/predict/prediction.hpp>
#include <miniapp/report/html/page.hpp>
#include <miniapp/report/standard_output.hpp>
#include <miniapp/report/trace_file.hpp>
#include <miniapp/run/budgets.hpp>
#include <miniapp/tools/advise/next_change.hpp>
#include <miniapp/tools/sweep/grid.hpp>

namespace shardmark {
namespace {

using PredictJson = nlohmann::ordered_json;

PredictedPoint predict(Deck deck, const Machine& machine, int ranks, int per_node,
                       UnfitTime unfit) {
  const Batch batch = infer_batch(deck, ranks);
  const Profile profile{.ranks_per_node = std::min(ranks, per_node)};
  apply_fit(deck, batch, ranks, profile, deck_fit_budget(deck));
  return predict_point(deck, machine, ranks, profile.ranks_per_node, unfit);
}

AdviseCase question_of(const GivenDeck& given, const Machine& machine, const PredictedPoint& p) {
  return {.deck = given.deck,
          .sets = given.sets,
          .machine = &machine,
          .ranks = p.ranks,
          .ranks_per_node = p.ranks_per_node};
}

// A page, and a trace of the step on the most ranks for which there is a time.
void write_files(const std::string& folder, const Deck& deck, const Machine& machine,
                 const std::vector<PredictedPoint>& points, const std::string& next_change) {
  std::error_code error;  // replace_file says what is wrong
  std::filesystem::create_directories(folder, error);
  replace_file(folder, "prediction.html", prediction_html(deck, machine, points, next_change),
               output_remedy);
  const auto timed =
      std::find_if(points.rbegin(), points.rend(), [](const PredictedPoint& p) { return p.timed; });
  if (timed == points.rend()) return;
  const PredictedPoint& last = *timed;
  replace_file(folder, "prediction-trace.json",
               trace_begin(last.program, deck.name) +
                   trace_events(last.program, {predicted_trace(last.program, last.priced)}, {},
                                machine.name) +
                   trace_end,
               output_remedy);
}

PredictJson answer_json(const Deck& deck, const Machine& machine,
                        const std::vector<PredictedPoint>& points) {
  PredictJson json{{"machine", machine.name}, {"deck", deck.name}};
  if (!deck.assumptions.empty()) json["assumptions"] = deck.assumptions;
  json["points"] = PredictJson::array();
  for (const PredictedPoint& p : points) {
    json["points"].push_back(point_json(p));
    add_cost(json["points"].back(), p);
  }
  return json;
}

}  // namespace

ExitStatus machine_check_command(const std::string& file) {
  const Machine machine = read_machine_file(file);
  std::string text = fmt::format("{}: {}\n", file, standing(machine));
  const std::vector<std::string> said = check_machine(machine);
  for (const std::string& sentence : said) text += fmt::format("  {}\n", sentence);
  if (said.empty()) text += "  nothing is missing, nothing is absurd\n";
  print_out(text);
  return ExitStatus::valid;
}

ExitStatus predict_command(const PredictArguments& a) {
  const Machine machine = read_machine_file(a.machine);
  const GivenDeck given = given_deck(a, "predict");
  const std::vector<int> numbers = parse_ranks(a.ranks);
  const bool one = numbers.size() == 1;
  const LoadedDeck loaded = read_deck(given.deck, given.sets, DeckUse::plan,
                                      one ? std::optional(numbers.front()) : std::nullopt);
  const Deck& deck = loaded.deck;
  const int per_node = ranks_of_a_node(a.ranks_per_node, machine);
  std::vector<PredictedPoint> points;
  for (const int ranks : numbers) {
    require_ranks(machine, a.machine, ranks, per_node);
    points.push_back(predict(deck, machine, ranks, per_node,
                             a.ignore_memory ? UnfitTime::predicted : UnfitTime::none));
  }
  std::optional<NextChange> next;
  if (one) next = next_change(question_of(given, machine, points.front()));
  const std::string next_text = one ? next_change_text(next, points.front().memory.fits()) : "";
  if (!a.out.empty()) write_files(a.out, deck, machine, points, next_text);
  if (a.format == "json") {
    PredictJson json = answer_json(deck, machine, points);
    if (one) json["next_change"] = next_change_json(next);
    json["deck_as_used"] = PredictJson::parse(loaded.used_json);
    print_out(json.dump(2) + "\n");
  } else {
    print_out(note_lines(deck) + prediction_text(deck, machine, points) +
              (one ? "  " + next_text : ""));
  }
  const bool all_timed = std::ranges::all_of(points, &PredictedPoint::timed);
  return all_timed ? ExitStatus::valid : ExitStatus::memory;
}

}  // namespace shardmark
