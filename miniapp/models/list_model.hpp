// SPDX-License-Identifier: Apache-2.0
// `compute: none`: no matrix products, but real buffers, real collectives and exact data. Gradients
// are small integers that every rank can recompute, times the world size and the loss scale. Their
// mean over ranks is exact in any order of summation, also in 16-bit formats (up to 4 x 4 ranks in
// bf16; a loss scale that is too large overflows fp16, as it should).
#pragma once

#include <map>

#include <core/nn/kernels/context.hpp>
#include <miniapp/models/event_model.hpp>

namespace shardmark {

/// The model of `run.compute` "none".
class ListModel : public Model {
 public:
  /// The context must outlive it.
  explicit ListModel(const Context& context) : context_(context) {}
  void run(const Program& program, const Event& event, std::span<const Bound> operands,
           const StepValues& values) override;

  /// Value of global element `elem` of the fp32 parameters (the master's) after `steps` updates
  /// with `dtype` as the model's type, computed without any communication. `gain` is `world` where
  /// gradients are summed over ranks and not averaged.
  static double expected_param(std::int64_t elem, int world, std::int64_t accumulation,
                               std::int64_t steps, Dtype dtype, std::int64_t gain = 1);

 private:
  std::uint64_t hash_of(const Bound& param) const;
  void init(const Program& program, const Event& event, const Bound& param) const;
  void forward(const Event& event, const Program& program, std::span<const Bound> operands);
  void backward(const Event& event, const Program& program, std::span<const Bound> operands,
                const StepValues& values) const;

  const Context& context_;
  std::map<int, std::uint64_t> seen_in_forward_;  // by parameter
};

}  // namespace shardmark
