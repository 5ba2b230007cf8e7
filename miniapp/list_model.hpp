// SPDX-License-Identifier: Apache-2.0
// `compute: none`: no matrix work, but real buffers, real collectives and exact data. Gradients are
// small integers that every rank can recompute, times the world size, so that their mean over ranks
// is an exact integer in any order of summation, in 16-bit formats too (at most 4 x 4 ranks in
// bf16).
#pragma once

#include <map>

#include <core/nn/context.hpp>
#include <miniapp/model.hpp>

namespace shardmark {

class ListModel : public Model {
 public:
  explicit ListModel(const Context& context) : context_(context) {}
  void run(const Program& program, const Event& event, std::span<const Bound> operands,
           std::int64_t step, int micro_batch) override;

  /// Value of global element `elem` of the parameters after `steps` updates, worked out alone.
  static std::int64_t expected_param(std::int64_t elem, int world, std::int64_t accumulation,
                                     std::int64_t steps);

 private:
  std::uint64_t hash_of(const Bound& param) const;

  const Context& context_;
  std::map<int, std::uint64_t> seen_in_forward_;  // by unit
};

}  // namespace shardmark
