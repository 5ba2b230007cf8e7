// SPDX-License-Identifier: Apache-2.0
// The fp32 states that an optimizer updates: the master copy of the parameters, and the states that
// the optimizer keeps besides. Every schedule declares, places and updates them here.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include <core/plan/partition/flat_param.hpp>
#include <core/plan/plan.hpp>
#include <core/plan/write/compute_writer.hpp>
#include <core/plan/write/plan_writer.hpp>

namespace shardmark {

/// The memory category of a state.
Category category_of(State state);

/// Where the update of a range of parameters finds its operands.
struct UpdatePlaces {
  Operand master, grad;
  std::vector<Operand> moments;
};

/// Writes the update of `params`. `clip` holds the norm's coefficient, or is no_slot if the
/// gradients are clipped already; `rounded` receives the new master in the type of the model, in
/// the same pass over memory.
Event& write_update(PlanWriter& writer, Optimizer optimizer, const UpdatePlaces& places, int clip,
                    std::span<const int> params, std::optional<Operand> rounded = {});

/// The slots of these states over one range of parameters.
class StateSlots {
 public:
  StateSlots() = default;
  /// Calls `declare(name, category)`, which returns a slot, for each state. If the parameters are
  /// their own master, as fp32 ones are, `master` is their slot and none is declared for it.
  template<class Declare>
  StateSlots(Optimizer optimizer, Declare declare, int master = no_slot) : optimizer_(optimizer) {
    slots_.push_back(master != no_slot ? master : declare("master", Category::master));
    for (const auto states : {traits(optimizer).moments, traits(optimizer).idle})
      for (const State state : states) {
        const Category category = category_of(state);
        slots_.push_back(declare(to_string(category), category));
      }
  }

  /// A master, and states that lie where it does but are no operands of its update.
  explicit StateSlots(int master, std::initializer_list<int> beside = {})
      : optimizer_(Optimizer::sgd), slots_{master} {
    slots_.insert(slots_.end(), beside);
  }

  int master() const { return slots_.empty() ? no_slot : slots_.front(); }
  std::span<const int> moments() const {
    return std::span(slots_).subspan(1, traits(optimizer_).moments.size());
  }
  /// The master, then the moments, then the other states.
  std::span<const int> all() const { return slots_; }

  /// Adds the states to the program's: the slots hold elements [first, first + elems) of the flat
  /// buffer that `layout` describes, from their element `at` on, the master from `master_at` on.
  void place(Program& program, std::int64_t master_at, std::int64_t at,
             std::span<const FlatParam> layout, std::int64_t first, std::int64_t elems) const;
  void place(Program& program, std::int64_t at, std::span<const FlatParam> layout,
             std::int64_t first, std::int64_t elems) const {
    place(program, at, at, layout, first, elems);
  }

  /// Acquires the moments and the idle states, and clears them.
  void begin_moments(PlanWriter& writer) const;

  /// The operands of an update of all elements.
  UpdatePlaces whole(const PlanWriter& writer, Operand grad) const {
    return part(writer, 0, 0, writer[master()].elems, grad);
  }
  /// The operands of an update of `elems` elements from `at` on, of the master from `master_at` on.
  UpdatePlaces part(const PlanWriter& writer, std::int64_t master_at, std::int64_t at,
                    std::int64_t elems, Operand grad) const;

 private:
  Optimizer optimizer_ = Optimizer::adamw;
  std::vector<int> slots_;  // the master, the moments, the idle states
};

}  // namespace shardmark
