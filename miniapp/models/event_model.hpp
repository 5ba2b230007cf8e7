// SPDX-License-Identifier: Apache-2.0
// The interface between executor and arithmetic: a model runs one compute event on real buffers.
// There are two: `train` (a transformer) and `none` (exact integers in place of gradients, for any
// list of parameters).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <core/nn/kernels/context.hpp>
#include <core/plan/deck/deck.hpp>
#include <core/plan/plan.hpp>
#include <io/data/witness.hpp>

namespace shardmark {

/// An operand with its address: `data` is the first element of the range.
struct Bound {
  void* data = nullptr;
  std::int64_t elems = 0;
  Dtype dtype = Dtype::fp32;
  bool accumulate = false;  // the operand is updated, not overwritten

  template<class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  template<class T>
  std::span<T> span() const {
    return {static_cast<T*>(data), static_cast<std::size_t>(elems)};
  }
};

/// What changes from step to step.
struct StepValues {
  std::int64_t step = 0;  // number of the optimizer step, skipped ones included; chooses the data
  std::int64_t updates = 0;    // how many steps before this one were not skipped
  double lr = 0, adam_lr = 0;  // see OptimizerSpec
  double loss_scale = 1;       // fp16's, of this step's loss
  // What gradients are divided by, and the factor of the norm that is reported: DeepSpeed changes
  // the scale before the update, and not all its optimizers report the norm that they clip by.
  double unscale = 1, norm_factor = 1;
  int micro_batch = 0;
};

/// The arithmetic of a run.
class Model {
 public:
  virtual ~Model() = default;
  /// Runs `event` of `program`. Local, on the compute lane.
  virtual void run(const Program& program, const Event& event, std::span<const Bound> operands,
                   const StepValues& values) = 0;
  /// How many rows each expert had so far on this rank, layer by layer; empty without experts.
  virtual std::span<const std::int64_t> expert_rows() const { return {}; }
  /// How many rows came to this rank's experts so far, layer by layer; empty unless ranks divide
  /// experts and learned routing decides it.
  virtual std::span<const std::int64_t> arrived_rows() const { return {}; }
  /// The parts of a routed all_to_all of `module` (Event::routed), as Collective::parts gives them,
  /// since its last count_routed. They stay valid until its next one.
  virtual std::span<const std::int64_t> routed_parts(int /*module*/, Routed /*routed*/) const {
    return {};
  }
};

/// Makes the model of `deck.run.compute`: the transformer with its data, or exact integers. Local.
/// Deck, context and `witness` must outlive it; `witness` may be null, otherwise it sees the data
/// that is read. Throws DeckError if the data cannot be read.
std::unique_ptr<Model> make_model(const Deck& deck, const Program& program, const Context& context,
                                  DataWitness* witness = nullptr);

}  // namespace shardmark
