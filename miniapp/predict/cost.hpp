// SPDX-License-Identifier: Apache-2.0
// What a step costs beside time: memory by kind and communicated volume, as text and JSON.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include <core/plan/interpret/footprint.hpp>
#include <miniapp/predict/prediction.hpp>

namespace shardmark {

/// Kinds of memory, of which each has several categories: "states", "activations", "buffers",
/// "workspaces".
struct MemoryKind {
  std::string_view name;
  std::int64_t (*bytes)(const CategoryBytes& at_peak);
};
extern const std::array<MemoryKind, 4> memory_kinds;

/// Lines with the memory of the program's rank at its peak, by tier, as states (param, grad,
/// master, momentum, variance), activations, buffers (bucket, gathered, staging) and workspaces,
/// beside the budgets; and with the volume of a step by collective.
std::string cost_text(const PredictedPoint& point);

/// Adds "memory_at_peak": {tier: {category: bytes}}, "volume": {op: {"calls", "elems", "bytes"}}
/// and "per_parameter" to `json`.
void add_cost(nlohmann::ordered_json& json, const PredictedPoint& point);

}  // namespace shardmark
