// SPDX-License-Identifier: Apache-2.0
// The model as the schedules see it: parameters in registration order, the modules that own them,
// and the units that the schedule `paper` shards and gathers as one. No values, no device: only
// sizes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <core/plan/deck.hpp>

namespace shardmark {

/// How a parameter gets its first values: facts of the model, not of the run.
enum class Init : std::uint8_t { uniform, zeros, ones };

struct Param {
  std::string name;
  std::int64_t elems = 0;
  std::int64_t first_elem = 0;  // global index: parameters concatenated in registration order
  int unit = 0;
  Init init = Init::uniform;
  double std = 0.02;  // of Init::uniform
};

struct Module {
  std::string name;
  int first_param = 0, param_count = 0;  // its own parameters, not its children's
  int tied_to = -1;                      // an alias: the parameter's index at its owner
};

enum class UnitKind : std::uint8_t { embeddings, block, head, list };

/// What is gathered, computed and reduced as one under `paper`. Its parameters are contiguous.
struct Unit {
  std::string name;
  UnitKind kind = UnitKind::list;
  int first_param = 0, param_count = 0;
  std::int64_t elems = 0, first_elem = 0;
  std::vector<int> also_reads;  // units whose parameters it uses too (a tied head: embeddings)
};

struct ModelShape {
  ModelSpec spec;
  std::vector<Param> params;
  std::vector<Module> modules;
  std::vector<Unit> units;  // in forward order
  std::int64_t elems = 0;   // Psi, the parameter count
};

/// Throws PlanError when counts overflow 63 bits, or a list's units are not contiguous.
ModelShape build_model_shape(const ModelSpec& spec);

}  // namespace shardmark
