// SPDX-License-Identifier: Apache-2.0
// `shardmark machines` and `shardmark decks`, which list the files that come with the program.
#include <algorithm>
#include <map>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <core/enum_array.hpp>
#include <core/error.hpp>
#include <core/text.hpp>
#include <io/deck/shipped_decks.hpp>
#include <io/machine/shipped_machines.hpp>
#include <miniapp/commands/commands.hpp>
#include <miniapp/report/standard_output.hpp>

namespace shardmark {

namespace {

// The level that nodes are connected by; nullptr: the file describes a single node.
const NetworkLevel* between_nodes(const Machine& machine) {
  const auto found = std::ranges::find_if(machine.network, &NetworkLevel::between_nodes);
  return found == machine.network.end() ? nullptr : &*found;
}

// What a node sends at the same time: what its links reach together, if the file says it.
double node_bytes_per_s(const Machine& machine, const NetworkLevel& level) {
  const double together = level.link.bytes_per_s * std::max(1, machine.node.ranks);
  return level.node_bytes_per_s > 0 ? std::min(level.node_bytes_per_s, together) : together;
}

std::string network_text(const Machine& machine) {
  const NetworkLevel* level = between_nodes(machine);
  if (level == nullptr) return "none: one node";
  if (!level->name.empty()) return level->name;
  const double bytes_per_s = node_bytes_per_s(machine, *level);
  return bytes_per_s > 0 ? fmt::format("{:.4g} GB/s per node", bytes_per_s * 1e-9) : "unknown";
}

std::string memory_text(double bytes) {
  return bytes > 0 ? fmt::format("{:.3g}", bytes / gib_bytes) : std::string("unknown");
}

// "6n 2m 4f 9a": the counts, each with the first letter of its kind.
std::string figures_text(const Machine& machine) {
  const FigureCounts counts = figure_counts(machine.provenance);
  std::string text;
  for (const FigureKind kind : all_values<FigureKind>)
    if (counts[kind] > 0)
      text += fmt::format("{}{}{}", text.empty() ? "" : " ", counts[kind], to_string(kind).front());
  return text;
}

using Row = std::vector<std::string>;

Row row_of(const ShippedMachine& m) {
  const int ranks = m.machine.node.ranks;
  return {m.name,
          m.machine.device.name,
          memory_text(m.machine.device.memory_bytes),
          ranks > 0 ? std::to_string(ranks) : "unknown",
          network_text(m.machine),
          figures_text(m.machine)};
}

// The sources, each with the machine files that name it.
std::string sources_text(const std::vector<ShippedMachine>& machines) {
  std::map<std::string, std::vector<std::string>> by_source;
  for (const ShippedMachine& m : machines) by_source[m.machine.provenance.source].push_back(m.name);
  std::string text;
  for (const auto& [source, names] : by_source)
    text += fmt::format(
        "{}: {}\n", by_source.size() == 1 ? std::string("Sources of all files") : join(names, ", "),
        source.empty() ? "no source is named" : source);
  return text;
}

std::string machines_text(const std::vector<ShippedMachine>& machines) {
  std::vector<Row> rows{{"name", "device", "GiB", "devices", "between nodes", "figures"}};
  for (const ShippedMachine& m : machines) rows.push_back(row_of(m));
  return join(in_columns(rows, {.left = rows.front().size(), .indent = ""}), "\n") +
         "\n\nDevices are those of a node, GiB the memory of one device. Figures: n nominal (from "
         "data "
         "sheets),\nm measured, f fitted to published runs, a assumed. " +
         sources_text(machines) +
         "Files for the same device differ in their network or software; `shardmark machine check "
         "NAME` says\nwhat a file stands for and what it lacks. docs/machines.md explains its "
         "keys.\n";
}

nlohmann::ordered_json machines_json(const std::vector<ShippedMachine>& machines) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ShippedMachine& m : machines) {
    const FigureCounts counts = figure_counts(m.machine.provenance);
    const NetworkLevel* level = between_nodes(m.machine);
    nlohmann::ordered_json item{{"name", m.name},
                                {"path", m.path},
                                {"machine", m.machine.name},
                                {"device", m.machine.device.name},
                                {"memory_bytes", m.machine.device.memory_bytes},
                                {"devices_per_node", m.machine.node.ranks},
                                {"network", nullptr}};
    if (level != nullptr)
      item["network"] = {{"name", level->name},
                         {"node_bytes_per_s", node_bytes_per_s(m.machine, *level)}};
    for (const FigureKind kind : all_values<FigureKind>)
      item["figures_by_kind"][std::string(to_string(kind))] = counts[kind];
    item["source"] = m.machine.provenance.source;
    item["figures"] = nlohmann::ordered_json::array();
    for (const Figure& f : m.machine.provenance.figures)
      item["figures"].push_back(
          {{"key", f.key}, {"kind", to_string(f.kind)}, {"source", f.source}});
    list.push_back(std::move(item));
  }
  return {{"machines", std::move(list)}};
}

}  // namespace

ExitStatus machines_command(const std::string& format) {
  const std::vector<ShippedMachine> machines = shipped_machines();
  if (machines.empty())
    throw DeckError(
        "no machine files: neither share/shardmark/inputs/machines of the installation nor "
        "inputs/machines of the source tree is where the program expects it: install the program "
        "again, or give a machine file by its path");
  print_out(format == "json" ? machines_json(machines).dump(2) + "\n" : machines_text(machines));
  return ExitStatus::valid;
}

ExitStatus decks_command() {
  std::vector<Row> rows;
  for (const ShippedDeck& deck : required_decks()) rows.push_back({deck.name, deck.summary});
  print_out(join(in_columns(rows, {.left = 2, .indent = ""}), "\n") + "\n");
  return ExitStatus::valid;
}

}  // namespace shardmark
