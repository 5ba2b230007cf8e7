// SPDX-License-Identifier: Apache-2.0
#include <io/deck/deck_keys.hpp>
#include <io/deepspeed/config.hpp>
#include <miniapp/predict/prediction.hpp>
#include <miniapp/tools/advise/networks.hpp>

namespace shardmark {
namespace {

// Nominal networks of a node. What of the bandwidth collectives reach is what published benchmarks
// of well-tuned clusters show (docs/advise.md).
struct NamedNetwork {
  const char* name;
  double node_gbit_per_s;  // 0: all ranks in one domain of the links within a node
  double latency_us, efficiency;
};
constexpr std::array<NamedNetwork, 6> networks{{{"links within a node only", 0, 0, 0},
                                                {"InfiniBand, 8 x 400 Gb/s", 3200, 2, 0.92},
                                                {"InfiniBand, 8 x 200 Gb/s", 1600, 2, 0.92},
                                                {"RoCE, 8 x 200 Gb/s", 1600, 3, 0.85},
                                                {"Ethernet, 100 Gb/s", 100, 15, 0.85},
                                                {"Ethernet, 25 Gb/s", 25, 20, 0.85}}};

Machine with_network(Machine m, const NamedNetwork& n, int ranks_per_node) {
  NetworkLevel level;
  for (const NetworkLevel& other : m.network)
    level = other.between_nodes || level.name.empty() ? other : level;
  std::erase_if(m.network, [](const NetworkLevel& l) { return l.between_nodes; });
  level.name = n.name;
  level.between_nodes = true;
  level.collectives.clear();
  level.oversubscription = 1;
  level.efficiency = n.efficiency;
  level.node_bytes_per_s = n.node_gbit_per_s * 1e9 / 8;
  level.link = {n.latency_us * 1e-6, level.node_bytes_per_s / ranks_per_node, false, "nominal"};
  if (level.nccl) {
    constexpr int channels = 16;
    level.nccl->ring = level.nccl->tree = {channels, level.node_bytes_per_s / channels};
    level.nccl->nvls = {};
    level.nccl->network_s = level.link.latency_s;
  }
  m.network.push_back(std::move(level));
  return m;
}

}  // namespace

NetworkTable network_table(const AdviseCase& question) {
  NetworkTable table;
  AdviseCase asked = question;
  for (const std::string& set : sets_of(changes_for(question.framework))) asked.sets.push_back(set);
  table.deck = changed_deck(asked, {}).deck;
  table.batch = infer_batch(table.deck, asked.ranks);
  std::array<std::vector<Program>, stage_count> programs;  // of the ranks that differ
  for (int stage = 0; stage < stage_count; ++stage) {
    const DeckChanges changes{{key_path<&ZeroSpec::stage>(), std::to_string(stage)}};
    const Candidate& c = table.stages[stage] = evaluate(asked, changes, true);
    if (c.step_s <= 0) continue;
    Program program = program_of(asked, changes);
    table.parameters = program.model.parameters;
    if (c.fits)
      programs[stage] = distinct_programs(changed_deck(asked, changes).deck, std::move(program),
                                          asked.per_node());
  }
  for (const NamedNetwork& n : networks) {
    NetworkRow row;
    row.network = n.name;
    const bool one_domain = n.node_gbit_per_s == 0;
    const int per_node = one_domain ? asked.ranks : asked.ranks_per_node;
    const Machine machine = one_domain ? *asked.machine : with_network(*asked.machine, n, per_node);
    for (int stage = 0; stage < stage_count; ++stage)
      if (const Candidate& c = table.stages[stage]; !programs[stage].empty())
        row.tokens_per_s[stage] = c.tokens_per_s * c.step_s /
                                  step_time(table.deck, programs[stage], machine, per_node).seconds;
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace shardmark
