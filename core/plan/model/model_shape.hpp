// SPDX-License-Identifier: Apache-2.0
// The model as the schedules see it: parameters in registration order, the modules that own them,
// and the units that the schedule `paper` shards and gathers as one. No values, no device: only
// sizes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <core/plan/deck/deck.hpp>

namespace shardmark {

/// How a parameter gets its first values: facts of the model, not of the run.
enum class Init : std::uint8_t { uniform, zeros, ones };

/// One parameter tensor of the model.
struct Param {
  std::string name;
  std::int64_t elems = 0;
  std::int64_t first_elem = 0;  // global index: parameters concatenated in registration order
  int unit = 0;
  Init init = Init::uniform;
  double std = 0.02;                // of Init::uniform
  std::vector<std::int64_t> shape;  // slowest first; their product is `elems`
};

/// Modules are in registration order; modules[0] is the root, whose name is "".
struct Module {
  std::string name;
  int first_param = 0, param_count = 0;  // its own parameters, not its children's
  int tied_to = -1;                      // an alias: first parameter of its owner
  int tied_count = 0;                    // how many of the owner's parameters it uses
  int parent = 0;                        // the container it lies in; of the root: the root
  int unit = -1;                         // -1: a container that belongs to no unit
  Role role = Role::container;
};

/// The part of the model that a unit is; a `list` model has units of one kind only.
enum class UnitKind : std::uint8_t { embeddings, block, head, list };

/// What is gathered, computed and reduced as one under `paper`. Its parameters are contiguous.
struct Unit {
  std::string name;
  UnitKind kind = UnitKind::list;
  int first_param = 0, param_count = 0;
  std::int64_t elems = 0, first_elem = 0;
  std::vector<int> also_reads;  // units whose parameters it uses too (a tied head: embeddings)
};

/// A model without values: its parameters, modules, units and the order in which they are used.
struct ModelShape {
  ModelSpec spec;
  std::vector<Param> params;
  std::vector<Module> modules;
  std::vector<Unit> units;    // in forward order
  std::vector<Visit> visits;  // one forward and one backward pass, as stage 3's hooks see them
  std::vector<std::vector<int>> param_groups;  // of the optimizer: parameters in their order there
  std::int64_t elems = 0;                      // Psi, the parameter count
  bool recompute = false;                      // each block runs forward again in its backward

  /// The parameters that a module uses: its own, or its owner's where it is tied.
  std::vector<int> params_of(int module) const;
  /// Modules that compute, in the order in which a pass visits them.
  std::vector<int> computing(VisitKind kind) const;
  /// By module: those that run forward again right before its backward.
  std::vector<std::vector<int>> recomputed_before() const;
};

/// Throws PlanError when counts overflow 63 bits, or a list's units are not contiguous.
/// `recompute`: activation checkpointing by block. Each block is run forward again in its backward,
/// which shows in the visits alone.
ModelShape build_model_shape(const ModelSpec& spec, bool recompute = false);

/// The order in which backward makes gradients ready: the list's own, or by modules in backward
/// order. Within a linear module bias before weight, but weight before bias where
/// `weight_first` (stage 3 with memory_efficient_linear); in any other module registration order
/// (facts recorded from DeepSpeed 0.19.8). A tied parameter is ready at its last use.
std::vector<int> gradient_ready_order(const ModelShape& model, bool weight_first);

}  // namespace shardmark
