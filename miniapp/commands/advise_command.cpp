// SPDX-License-Identifier: Apache-2.0
// `shardmark advise`, which answers from files alone.
#include <algorithm>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <core/error.hpp>
#include <io/deck/deck_findings.hpp>
#include <io/deck/deck_reader.hpp>
#include <io/machine/machine_file.hpp>
#include <miniapp/commands/commands.hpp>
#include <miniapp/report/standard_output.hpp>
#include <miniapp/tools/advise/answer/print.hpp>
#include <miniapp/tools/advise/answer/write_decks.hpp>

namespace shardmark {
namespace {

using AdviseJson = nlohmann::ordered_json;

AdviseCase case_of(const AdviseArguments& a, const Machine& machine) {
  const GivenDeck given = given_deck(a, "advise");
  AdviseCase question{.deck = given.deck,
                      .sets = given.sets,
                      .machine = &machine,
                      .ranks = a.ranks,
                      .ranks_per_node = ranks_of_a_node(a.ranks_per_node, machine, a.ranks),
                      .framework = framework_of(a.framework, given.deck, given.sets)};
  question.exact_rows = std::max(question.exact_rows, static_cast<std::size_t>(a.top));
  require_ranks(machine, a.machine, a.ranks, question.ranks_per_node);
  return question;
}

void print_answer(const AdviseArguments& a, const AdviseCase& question, const AdviseJson& json,
                  const std::string& text) {
  print_out(a.format == "json"
                ? json.dump(2, ' ', true, AdviseJson::error_handler_t::replace) + "\n"
                : note_lines(read_deck(question.deck, question.sets, DeckUse::plan).deck) + text);
}

std::string per_node_words(const AdviseArguments& a) {
  return a.ranks_per_node > 0 ? fmt::format(" --ranks-per-node {}", a.ranks_per_node) : "";
}

// The commands that check `deck`, which stands for a deck with its options.
std::vector<std::string> commands_of(const AdviseArguments& a, const AdviseCase& q,
                                     const std::string& deck) {
  return {
      fmt::format("shardmark predict {} --machine {} --ranks {}{}", deck, shell_word(a.machine),
                  q.ranks, per_node_words(a)),
      fmt::format("shardmark plan {} --ranks {} --ranks-per-node {}", deck, q.ranks, q.per_node()),
      fmt::format("mpiexec -n {} shardmark run {}", q.ranks, deck)};
}

// Commands of a readable length that check the best candidate: with its deck, which the first
// command writes if this one has not.
std::vector<std::string> short_commands(const AdviseArguments& a, const Advice& advice,
                                        const std::vector<std::string>& written) {
  const AdviseCase& q = advice.question;
  if (!written.empty()) return commands_of(a, q, shell_word(written.front()));
  if (advice.needed.empty() && !a.deck.empty()) return commands_of(a, q, deck_words(a));
  const std::string folder = "advice";
  std::string again = fmt::format("shardmark advise {} --machine {} --ranks {}{}", deck_words(a),
                                  shell_word(a.machine), q.ranks, per_node_words(a));
  if (!a.framework.empty()) again += " --for " + a.framework;
  std::vector<std::string> commands = commands_of(a, q, best_deck(advice, folder));
  commands.insert(commands.begin(), again + " --write " + folder);
  return commands;
}

// Commands of which each stands alone, for scripts: with the deck that was written, or with the
// given one and its changes.
std::vector<std::string> check_commands(const AdviseArguments& a, const Advice& advice,
                                        const std::vector<std::string>& written) {
  if (!written.empty() || a.deck.empty()) return short_commands(a, advice, written);
  DeckArguments changed = a;
  changed.batch = 0;  // the changes have it
  for (std::string& set : sets_of(advice.needed)) changed.sets.push_back(std::move(set));
  return commands_of(a, advice.question, deck_words(changed));
}

}  // namespace

ExitStatus advise_command(const AdviseArguments& a) {
  const Machine machine = read_machine_file(a.machine);
  const AdviseCase question = case_of(a, machine);
  if (a.max_model) {
    if (a.networks || !a.write.empty())
      throw DeckError(
          fmt::format("--max-model beside {}: it has neither a table of networks nor decks to "
                      "write: ask for one at a time",
                      a.networks ? "--networks" : "--write"));
    const MaxModels models = max_models(question);
    print_answer(a, question, max_model_json(question, models), max_model_text(question, models));
    return ExitStatus::valid;
  }
  const Advice advice = advise(question, a.batch);
  WrittenAdvice left;
  if (!a.write.empty()) left = write_decks(advice, a.write);
  std::vector<std::string>& written = left.files;
  AdviseJson json = advice_json(advice, a.format == "json" ? 0 : static_cast<std::size_t>(a.top));
  json["check_commands"] = check_commands(a, advice, written);
  std::string text =
      advice_text(advice, static_cast<std::size_t>(a.top), short_commands(a, advice, written));
  if (a.networks) {
    const NetworkTable table = network_table(advice.question);
    json["networks"] = networks_json(table);
    text += network_text(advice.question, table);
    if (!a.write.empty()) {
      written.push_back(a.write + "/networks.svg");
      write_text(written.back(), network_picture(advice.question, table));
    }
  }
  if (!a.write.empty()) json["written"] = written;
  for (const std::string& path : written) text += "wrote " + path + "\n";
  if (!left.summary.empty()) text += "wrote " + left.summary + "\n" + left.notes;
  print_answer(a, question, json, text);
  return ExitStatus::valid;
}

}  // namespace shardmark
