// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/core.h>

#include <core/plan/interpret/estimators.hpp>
#include <core/text.hpp>

namespace shardmark {
namespace {

// DeepSpeed's additional_buffer_factor: room on the CPU for what the formulas leave out.
constexpr double buffer_factor = 1.5;

std::int64_t whole(double bytes) {
  return static_cast<std::int64_t>(bytes);  // DeepSpeed truncates, too
}

}  // namespace

EstimateInput estimate_input(const ModelShape& model, int world, int ranks_per_node) {
  EstimateInput in;
  in.params = model.elems;
  for (int m = 0; m < static_cast<int>(model.modules.size()); ++m) {
    std::int64_t own = 0;
    for (int p : model.params_of(m)) own += model.params[p].elems;
    in.largest_layer_params = std::max(in.largest_layer_params, own);
  }
  const bool divides = ranks_per_node > 0 && world % ranks_per_node == 0;
  in.ranks_per_node = divides ? ranks_per_node : world;
  in.nodes = divides ? world / ranks_per_node : 1;
  return in;
}

std::vector<StateEstimate> estimate_zero2(const EstimateInput& in) {
  const auto psi = static_cast<double>(in.params);
  const auto gpus = static_cast<double>(in.ranks_per_node * in.nodes);
  const auto per_node = static_cast<double>(in.ranks_per_node);
  return {{"offload_optimizer=cpu", whole(psi * std::max(4 * gpus, 16.0) * buffer_factor),
           2 * in.params},
          {"offload_optimizer=none", whole(psi * 4 * per_node * buffer_factor),
           2 * in.params + whole(18 * psi / gpus)}};
}

std::vector<StateEstimate> estimate_zero3(const EstimateInput& in) {
  const auto psi = static_cast<double>(in.params);
  const auto per_node = static_cast<double>(in.ranks_per_node);
  const auto gpus = per_node * static_cast<double>(in.nodes);
  const double share = 1.0 / static_cast<double>(in.nodes);
  const std::int64_t layer = 4 * in.largest_layer_params;
  std::vector<StateEstimate> rows;
  auto add = [&](const char* param, const char* optimizer, bool init, double cpu,
                 std::int64_t gpu) {
    rows.push_back({fmt::format("offload_param={}, offload_optimizer={}, zero_init={}", param,
                                optimizer, init ? 1 : 0),
                    whole(cpu * buffer_factor), gpu});
  };
  const std::int64_t shard2 = layer + whole(2 * psi / gpus);
  const std::int64_t shard18 = layer + whole(18 * psi / gpus);
  add("cpu", "cpu", true, psi * 18 * share, layer);
  add("cpu", "cpu", false, psi * std::max(4 * per_node, 18 * share), layer);
  add("none", "cpu", true, psi * 16 * share, shard2);
  add("none", "cpu", false, psi * std::max(4 * per_node, 16 * share), shard2);
  add("none", "none", true, static_cast<double>(in.largest_layer_params) * 4 * per_node, shard18);
  add("none", "none", false, psi * 4 * per_node, shard18);
  return rows;
}

double paper_state_bytes(double params, int ranks, int stage) {
  const double n = ranks;
  switch (stage) {
    case 0: return 16 * params;
    case 1: return 4 * params + 12 * params / n;
    case 2: return 2 * params + 14 * params / n;
    default: return 16 * params / n;
  }
}

std::string paper_digits(double gigabytes) {
  if (gigabytes >= 100) return fmt::format("{:.0f}", std::floor(gigabytes));
  const double steps = gigabytes >= 10 ? 10 : 100;
  std::string text = fmt::format("{:.2f}", std::floor(gigabytes * steps + 0.5) / steps);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string print_estimates(const ModelShape& model, int world, int ranks_per_node) {
  const EstimateInput in = estimate_input(model, world, ranks_per_node);
  const auto psi = static_cast<double>(in.params);
  std::string text;
  auto out = std::back_inserter(text);
  fmt::format_to(out, "\nestimates of other tools per rank, for model states alone\n");
  fmt::format_to(out,
                 "  ZeRO paper, mixed precision, {} (GB of 1e9 bytes):", plural(world, "rank"));
  static constexpr const char* names[] = {"baseline", "P_os", "P_os+g", "P_os+g+p"};
  for (int stage = 0; stage < 4; ++stage)
    fmt::format_to(out, "{} {} {}", stage > 0 ? "," : "", names[stage],
                   paper_digits(paper_state_bytes(psi, world, stage) * 1e-9));
  fmt::format_to(out, "\n  DeepSpeed's estimators, {} of {} (GB of 2^30 bytes):\n",
                 plural(in.nodes, "node"), in.ranks_per_node);
  auto rows = [&](const char* name, const std::vector<StateEstimate>& list) {
    for (const StateEstimate& row : list)
      fmt::format_to(out, "    {}  {:>9.2f} CPU, {:>8.2f} GPU  {}\n", name,
                     static_cast<double>(row.cpu_bytes) / gib_bytes,
                     static_cast<double>(row.gpu_bytes) / gib_bytes, row.options);
  };
  rows("zero2", estimate_zero2(in));
  rows("zero3", estimate_zero3(in));
  return text;
}

}  // namespace shardmark
