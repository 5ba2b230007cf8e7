// SPDX-License-Identifier: Apache-2.0
// `shardmark advise`, which answers from files alone.
#include <algorithm>
#include <fstream>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <core/error.hpp>
#include <io/deck/deck_findings.hpp>
#include <io/deck/deck_reader.hpp>
#include <io/machine/machine_file.hpp>
#include <miniapp/commands/commands.hpp>
#include <miniapp/commands/help/completion.hpp>
#include <miniapp/report/standard_output.hpp>
#include <miniapp/tools/advise/answer/print.hpp>
#include <miniapp/tools/advise/answer/write_decks.hpp>

namespace shardmark {
namespace {

using AdviseJson = nlohmann::ordered_json;

AdviseCase case_of(const AdviseArguments& a, const Machine& machine) {
  AdviseCase question;
  question.deck = a.deck;
  question.sets = a.sets;
  question.machine = &machine;
  question.ranks = a.ranks;
  question.ranks_per_node = a.ranks_per_node > 0     ? a.ranks_per_node
                            : machine.node.ranks > 0 ? machine.node.ranks
                                                     : a.ranks;
  question.framework = framework_of(a.framework, a.deck, a.sets);
  require_ranks(machine, a.machine, a.ranks, question.ranks_per_node);
  return question;
}

void print_answer(const AdviseArguments& a, const AdviseJson& json, const std::string& text) {
  print_out(a.format == "json"
                ? json.dump(2, ' ', true, AdviseJson::error_handler_t::replace) + "\n"
                : note_lines(read_deck(a.deck, a.sets, DeckUse::plan).deck) + text);
}

ExitStatus answer_max_model(const AdviseArguments& a, const AdviseCase& question) {
  const MaxModels models = max_models(question);
  print_answer(a, max_model_json(question, models), max_model_text(question, models));
  return ExitStatus::valid;
}

// A word of a command line, quoted where a shell would change it.
std::string shell_word(const std::string& text) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./=,:+-@%";
  return !text.empty() && text.find_first_not_of(plain) == std::string::npos ? text
                                                                             : shell_quoted(text);
}

// Commands that check the best candidate: with the deck that was written, or with the given one and
// its changes.
std::vector<std::string> check_commands(const AdviseArguments& a, const Advice& advice,
                                        const std::vector<std::string>& written) {
  const AdviseCase& q = advice.question;
  std::string deck = shell_word(written.empty() ? a.deck : written.front());
  if (written.empty()) {
    std::vector<std::string> sets = a.sets;
    for (std::string& set : sets_of(advice.needed)) sets.push_back(std::move(set));
    for (const std::string& set : sets) deck += " --set " + shell_word(set);
  }
  const std::string per_node =
      a.ranks_per_node > 0 ? fmt::format(" --ranks-per-node {}", a.ranks_per_node) : "";
  return {fmt::format("shardmark predict {} --machine {} --ranks {}{}", deck, shell_word(a.machine),
                      q.ranks, per_node),
          fmt::format("shardmark plan {} --ranks {} --ranks-per-node {}", deck, q.ranks,
                      std::min(q.ranks, q.ranks_per_node)),
          fmt::format("mpiexec -n {} shardmark run {}", q.ranks, deck)};
}

void write_picture(const std::string& path, const std::string& picture) {
  std::ofstream out(path);
  out << picture;
  out.close();
  if (!out) throw IoError(path + ": cannot be written: give another --write");
}

}  // namespace

ExitStatus advise_command(const AdviseArguments& a) {
  const Machine machine = read_machine_file(a.machine);
  const AdviseCase question = case_of(a, machine);
  if (a.max_model) return answer_max_model(a, question);
  const Advice advice = advise(question, a.batch);
  std::vector<std::string> written;
  if (!a.write.empty()) written = write_decks(advice, a.write);
  const std::vector<std::string> commands = check_commands(a, advice, written);
  AdviseJson json = advice_json(advice, a.format == "json" ? 0 : static_cast<std::size_t>(a.top));
  json["check_commands"] = commands;
  std::string text = advice_text(advice, static_cast<std::size_t>(a.top), commands);
  if (a.networks) {
    const NetworkTable table = network_table(advice.question);
    json["networks"] = networks_json(table);
    text += network_text(advice.question, table);
    if (!a.write.empty()) {
      written.push_back(a.write + "/networks.svg");
      write_picture(written.back(), network_picture(advice.question, table));
    }
  }
  if (!a.write.empty()) json["written"] = written;
  for (const std::string& path : written) text += "wrote " + path + "\n";
  print_answer(a, json, text);
  return ExitStatus::valid;
}

}  // namespace shardmark
