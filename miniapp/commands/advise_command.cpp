// SPDX-License-Identifier: Apache-2.0
// `shardmark advise`, which answers from files alone.
#include <fstream>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <core/error.hpp>
#include <io/deck/deck_reader.hpp>
#include <io/machine/machine_file.hpp>
#include <miniapp/advise/print.hpp>
#include <miniapp/advise/write_decks.hpp>
#include <miniapp/commands/commands.hpp>
#include <miniapp/report/standard_output.hpp>

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
  require_ranks(machine, a.machine, a.ranks, question.ranks_per_node);
  return question;
}

void print_answer(const AdviseArguments& a, const AdviseJson& json, const std::string& text) {
  print_out(a.format == "json"
                ? json.dump(2, ' ', true, AdviseJson::error_handler_t::replace) + "\n"
                : text);
}

}  // namespace

ExitStatus advise_command(const AdviseArguments& a) {
  const Machine machine = read_machine_file(a.machine);
  AdviseCase question = case_of(a, machine);
  if (a.max_model) {
    const std::vector<MaxModel> models = max_models(question);
    print_answer(
        a, {{"machine", machine.name}, {"ranks", a.ranks}, {"max_models", max_model_json(models)}},
        max_model_text(question, models));
    return ExitStatus::valid;
  }
  Advice advice = advise(question, a.batch);
  advice.question.machine = &machine;
  AdviseJson json = advice_json(advice, a.format == "json" ? 0 : static_cast<std::size_t>(a.top));
  std::string text = advice_text(advice, static_cast<std::size_t>(a.top));
  std::vector<NetworkRow> rows;
  if (a.networks) {
    rows = network_rows(advice.question);
    json["networks"] = networks_json(rows);
    text += "\nthe deck as it is, at each stage and on other networks\n" + network_text(rows);
  }
  if (!a.write.empty()) {
    std::vector<std::string> written = write_decks(advice, a.write);
    if (a.networks) {
      const std::string path = a.write + "/networks.svg";
      std::ofstream out(path);
      out << network_picture(rows, advice.question.deck);
      out.close();
      if (!out) throw IoError(path + ": cannot be written: give another --write");
      written.push_back(path);
    }
    json["written"] = written;
    for (const std::string& path : written) text += "wrote " + path + "\n";
  }
  print_answer(a, json, text);
  return ExitStatus::valid;
}

}  // namespace shardmark
