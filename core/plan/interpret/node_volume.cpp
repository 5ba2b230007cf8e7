// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <core/plan/deck/quantized.hpp>
#include <core/plan/interpret/node_volume.hpp>
#include <core/plan/interpret/volume.hpp>

namespace shardmark {
namespace {

// A step of ZeRO-3 gathers each parameter twice per micro-batch and reduces its gradient once.
void add_theory(const Program& p, const Deck& deck, NodeVolume& v) {
  if (p.mesh.tensor_ranks() > 1 || deck.zero.stage != 3 ||
      !traits(deck.run.schedule).follows_deepspeed)
    return;
  const ZeroKnobs& knobs = deck.zero.knobs;
  const auto size = static_cast<double>(dtype_bytes(p.precision.model));
  const auto micros = static_cast<double>(p.batch.accumulation);
  const double gradient = static_cast<double>(dtype_bytes(p.precision.comm)) / size;
  const std::int64_t block = std::min<std::int64_t>(knobs.hpz_partition_size, p.world);
  // Secondary copies within a node leave the first gather of a step to the network between nodes.
  const bool in_node = block > 1 && v.ranks_per_node % block == 0;
  const double gathers = in_node ? 1 : 2 * micros;
  const double int8 = static_cast<double>(dtype_bytes(Dtype::int8)) / size;
  const double int4 = int8 / 2;
  v.theory_of_zero3 = micros * (2 + gradient);
  v.theory = gathers * (knobs.quantized_weights ? int8 : 1) +
             micros * (sends_int4(deck) ? int4 : gradient);
}

}  // namespace

std::optional<NodeVolume> volume_between_nodes(const Program& p, const Deck& deck,
                                               int ranks_per_node) {
  NodeVolume v;
  v.ranks_per_node = ranks_of_node(deck, ranks_per_node);
  const bool known = deck.machine.ranks_per_node > 0 || ranks_per_node > 1;
  if (!known || p.world <= v.ranks_per_node || p.world % v.ranks_per_node != 0) return {};
  v.nodes = p.world / v.ranks_per_node;
  for (int g = 0; g < static_cast<int>(p.groups.size()); ++g) {
    const std::int64_t here = p.ranks_here(g, v.ranks_per_node);
    if (here == p.size_of(g)) continue;
    for (const auto& [op, traffic] : steady_volume(p, g)) {
      const std::int64_t sharing = op == Op::all_to_all ? 1 : here;
      v.bytes += (op == Op::all_reduce ? 2.0 : 1.0) * static_cast<double>(traffic.bytes) *
                 static_cast<double>(v.ranks_per_node) / static_cast<double>(sharing);
    }
  }
  v.per_parameter = v.bytes / static_cast<double>(p.model.elems * dtype_bytes(p.precision.model));
  add_theory(p, deck, v);
  return v;
}

std::string describe(const NodeVolume& v, const Program& p) {
  std::string text = fmt::format(
      "between {} nodes of {}: {:.0f} bytes per step and node, {:.4f} elements of {} per parameter",
      v.nodes, v.ranks_per_node, v.bytes, v.per_parameter, to_string(p.precision.model));
  if (v.theory && *v.theory != *v.theory_of_zero3)
    text +=
        fmt::format(" (theory: {:.4g} in place of ZeRO-3's {:.4g})", *v.theory, *v.theory_of_zero3);
  else if (v.theory)
    text += fmt::format(" (theory: {:.4g})", *v.theory);
  return text;
}

nlohmann::ordered_json print_json(const NodeVolume& v) {
  nlohmann::ordered_json o = {{"nodes", v.nodes},
                              {"ranks_per_node", v.ranks_per_node},
                              {"bytes", v.bytes},
                              {"per_parameter", v.per_parameter}};
  if (v.theory) o["theory"] = *v.theory;
  if (v.theory_of_zero3) o["theory_of_zero3"] = *v.theory_of_zero3;
  return o;
}

}  // namespace shardmark
