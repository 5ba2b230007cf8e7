// SPDX-License-Identifier: Apache-2.0
// The model as the schedules see it: parameters in registration order, the modules that own them,
// and the units that the schedule `paper` shards and gathers as a whole. Only sizes are here, no
// values and no device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <core/plan/deck/deck.hpp>

namespace shardmark {

/// How a parameter gets its first values, which the model decides and not the run.
enum class Init : std::uint8_t { uniform, zeros, ones };

/// What training does with a parameter: a frozen one takes no gradient, and an unused one could,
/// but no forward pass uses it.
enum class ParamUse : std::uint8_t { trained, frozen, unused };

/// The part of a tensor that this rank has, if the layers of the model are divided: runs of `width`
/// elements, `pitch` apart in the whole tensor, the first of which begins at `first`. A rank beyond
/// the heads of keys has runs without elements.
struct TensorSlice {
  std::int64_t first = 0, width = 0, pitch = 0;  // a pitch of 0: all of the tensor
  bool cuts() const { return pitch > 0; }
  bool operator==(const TensorSlice&) const = default;
};

/// One parameter tensor of the model.
struct Param {
  std::string name;
  std::int64_t elems = 0;
  std::int64_t first_elem = 0;  // global index: parameters concatenated in registration order
  int unit = 0;
  Init init = Init::uniform;
  double std = 0.02;                // of Init::uniform
  std::vector<std::int64_t> shape;  // slowest dimension first; the product is `elems`
  ParamUse use = ParamUse::trained;
  bool hidden_matrix = false;  // of a hidden layer: Muon updates these as matrices
  TensorSlice slice = {};  // which part of the tensor this is; `shape` and `elems` are the part's
  Holders holders = Holders::all;
  int drawn_as = -1;  // whose first values it has, by the place in the undivided model; -1: its own
  /// Whether backward makes its gradient.
  bool trained() const { return use == ParamUse::trained; }
  /// Whether the optimizer updates it. Unused parameters have an update too, by gradients of zero.
  bool updated() const { return use != ParamUse::frozen; }
};

/// A call of a module without parameters.
struct BareCall {
  int order = 0;  // its place, as Module::order
  Role after = Role::container;
  bool gradient = true;  // whether its input and its output have gradients
};

/// A module. Modules are in registration order; modules[0] is the root, whose name is "".
struct Module {
  std::string name;
  int first_param = 0, param_count = 0;  // its own parameters, without those of its children
  int tied_to = -1;                      // of an alias: the first parameter of its owner
  int tied_count = 0;                    // of an alias: how many of the owner's parameters it uses
  int parent = 0;                        // the container in which it lies; the root's is the root
  int unit = -1;                         // -1 for a container that belongs to no unit
  Role role = Role::container;
  int order = 0;       // modules of one container are called in the order of these numbers
  bool called = true;  // whether a forward pass calls it: containers of layers are not called
  // Whether its output and its input have gradients, which they lack before the first parameter
  // that is trained. A container goes by the modules inside.
  bool output_gradient = true, input_gradient = true;
  // Whether a pass through its unit begins or ends with it, of those that compute.
  bool begins_forward = false, ends_forward = false, begins_backward = false;
  bool adapted = false;           // factors complete its product
  bool copy = false;              // an adapter trains it in the place of the frozen original
  Role adapts = Role::container;  // of a factor and its dropout: the role of that product
  // The parameter of a module inside that its own forward pass reads too, or -1: PEFT's modules ask
  // for the type of factor A.
  int reads_param = -1;
  bool exchanged = false;  // ranks send each other what it reads and what it makes
  // Whether each rank has a part of the gradients of its parameters, which are whole.
  bool in_parts = false;
  ProductCut cut = ProductCut::none;  // how ranks divide its product
  // Of a router or of experts: ranks that divide layers, too, share the work on its rows.
  bool folded = false;
  Bare bare = Bare::none;  // what a module without parameters does itself
  // In forward order its calls, unless the modules inside say when it is called.
  std::vector<BareCall> calls = {};
  bool block = false;  // whether it is a block, which activation checkpointing runs again
  std::string python_class = {};  // of a list's module or of a mixture's container, if given
};

/// The part of the model that a unit is; a `list` model has units of one kind only.
enum class UnitKind : std::uint8_t { embeddings, block, head, list };

/// A part of the model that `paper` gathers, computes and reduces as a whole. Its parameters are
/// contiguous.
struct Unit {
  std::string name;
  UnitKind kind = UnitKind::list;
  int first_param = 0, param_count = 0;
  std::int64_t elems = 0, first_elem = 0;
  std::vector<int> also_reads;  // units whose parameters it also uses (for a tied head: embeddings)
};

/// A model without values: its parameters, modules, units and the order in which they are used.
struct ModelShape {
  ModelSpec spec;
  std::vector<Param> params;
  std::vector<Module> modules;
  std::vector<Unit> units;    // in forward order
  std::vector<Visit> visits;  // one forward and one backward pass, as stage 3's hooks see them
  std::vector<std::vector<int>> param_groups;  // of the optimizer, in its order, none frozen
  std::int64_t elems = 0;  // Psi, the number of parameters: this rank's, if ranks divide layers
  std::int64_t parameters = 0;  // of the whole model, whichever ranks have them
  bool recompute = false;       // whether each block runs forward again in its backward
  bool reentrant = false;  // whether it does so as a whole, before any backward of the block begins

  /// The parameters that a module uses: its own, or those of its owner if it is tied.
  std::vector<int> params_of(int module) const;
  /// Those of them whose gradients its backward makes.
  std::vector<int> trained_params_of(int module) const;
  /// The modules whose computation a visit begins: none for a container, and in backward
  /// attention's sinks after the product behind attention, since their gradient is made there.
  std::vector<int> computed_at(const Visit& visit) const;
  /// Modules that compute, in the order in which a pass visits them.
  std::vector<int> computing(VisitKind kind) const;
  /// By module: the modules that run forward again right before its backward.
  std::vector<std::vector<int>> recomputed_before() const;
};

/// Throws PlanError when counts overflow 63 bits, or a list's units are not contiguous.
/// `recompute` asks for activation checkpointing by block: each block runs forward again in its
/// backward, which only the visits show; `reentrant` as for ModelShape.
ModelShape build_model_shape(const ModelSpec& spec, bool recompute = false, bool reentrant = false);

/// The order in which backward makes gradients ready, without frozen and unused parameters. A list
/// gives its own order; otherwise modules follow in backward order. Within a linear module the bias
/// comes before the weight, or after it if `weight_first` (stage 3 with memory_efficient_linear, or
/// under torch_autocast) and the module is torch's own; in any other module parameters come in
/// registration order, as recorded from DeepSpeed 0.19.8. A tied parameter is ready at its last
/// use.
std::vector<int> gradient_ready_order(const ModelShape& model, bool weight_first);

}  // namespace shardmark
