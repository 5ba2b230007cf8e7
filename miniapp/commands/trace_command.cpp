// SPDX-License-Identifier: Apache-2.0
// `shardmark trace`, which writes a step of every rank as Chakra execution traces.
#include <algorithm>
#include <filesystem>
#include <optional>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <core/error.hpp>
#include <core/plan/build/legal_program.hpp>
#include <core/text.hpp>
#include <io/deck/deck_reader.hpp>
#include <io/deepspeed/config.hpp>
#include <io/files/durable_file.hpp>
#include <io/files/output_folder.hpp>
#include <io/machine/machine_file.hpp>
#include <miniapp/commands/commands.hpp>
#include <miniapp/commands/given_deck.hpp>
#include <miniapp/predict/prediction.hpp>
#include <miniapp/report/chakra_trace.hpp>
#include <miniapp/report/standard_output.hpp>
#include <miniapp/run/budgets.hpp>

namespace shardmark {
namespace {

// A file name made of the deck's own name, which may contain anything.
std::string file_name(const std::string& deck_name) {
  std::string name;
  for (const char c : deck_name) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       c == '-' || c == '_' || c == '.';
    name += plain ? c : '_';
  }
  return name.empty() || name.front() == '.' ? "deck" + name : name;
}

// Durations of a step that cannot take place would mislead a simulator as they would a reader.
void require_memory(const MemoryFit& memory, const TraceArguments& a) {
  if (memory.fits()) return;
  throw MemoryError(
      fmt::format("{}: on {} {}; a trace without durations needs no memory: leave --machine out",
                  a.deck, a.machine, memory.refusal));
}

}  // namespace

ExitStatus trace_command(const TraceArguments& a) {
  std::optional<Machine> machine;
  if (!a.machine.empty()) machine = read_machine_file(a.machine);
  Deck deck = read_deck(a.deck, a.sets, DeckUse::plan, a.ranks).deck;
  const Batch batch = infer_batch(deck, a.ranks);
  const int per_node = ranks_of_a_node(a.ranks_per_node, machine.value_or(Machine{}));
  const Profile profile{.ranks_per_node = std::min(a.ranks, per_node)};
  if (machine) require_ranks(*machine, a.machine, a.ranks, profile.ranks_per_node);
  apply_fit(deck, batch, a.ranks, profile, deck_fit_budget(deck));
  const PriceOptions options = price_options(deck, profile.ranks_per_node);

  std::error_code error;  // replace_file says what is wrong
  std::filesystem::create_directories(a.out, error);
  const std::string name = file_name(deck.name) + ".et";
  auto groups = nlohmann::ordered_json::object();
  for (int rank = 0; rank < a.ranks; ++rank) {
    const Program program = build_legal_program(deck, batch, a.ranks, rank, profile);
    if (machine && rank == 0)
      require_memory(memory_fit(deck, program, *machine, profile.ranks_per_node), a);
    const std::string trace =
        machine ? chakra_trace(program, deck.name, price(program, *machine, options))
                : chakra_trace(program, deck.name);
    replace_file(a.out, rank_file(name, rank), trace, output_remedy);
    groups.update(chakra_groups(program));
  }
  std::string text = fmt::format("{}/{}: {} of one step, {}\n", a.out, rank_file(name, 0),
                                 plural(a.ranks, "trace"),
                                 machine ? "with the durations that " + a.machine + " predicts"
                                         : "without durations (give --machine for these)");
  if (!groups.empty()) {
    const std::string file = chakra_groups_file(name);
    replace_file(a.out, file, groups.dump() + "\n", output_remedy);
    text +=
        fmt::format("{}/{}: the ranks of {}\n", a.out, file, plural(std::ssize(groups), "group"));
  }
  print_out(text);
  return ExitStatus::valid;
}

}  // namespace shardmark
