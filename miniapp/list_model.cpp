// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include <Kokkos_Core.hpp>

#include <core/error.hpp>
#include <core/kokkos_shim.hpp>
#include <core/nn/elementwise.hpp>
#include <core/nn/init.hpp>
#include <core/plan/kernels.hpp>
#include <miniapp/list_model.hpp>
#include <miniapp/state_kernels.hpp>

namespace shardmark {
namespace {

// -2 … 2. It depends on the parameter's bits as this rank sees them, as a real gradient would: a
// gather that delivers something else shows in the result.
KOKKOS_INLINE_FUNCTION int small_integer(std::int64_t elem, float param, int rank,
                                         std::int64_t step, int micro) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &param, sizeof bits);
  const auto mixed = static_cast<std::uint64_t>(elem) * 7 + static_cast<std::uint64_t>(rank) * 3 +
                     static_cast<std::uint64_t>(step) * 11 + static_cast<std::uint64_t>(micro) * 4;
  return static_cast<int>((mixed + bits % 65521) % 5) - 2;
}
KOKKOS_INLINE_FUNCTION std::int64_t first_value(std::int64_t elem) {
  return elem % 17 - 8;
}

// The part of a unit that a buffer holds: global index of its first element, and how many are real.
struct Piece {
  std::int64_t first_elem, elems;
};

Piece piece_of(const Program& program, int unit, const Bound& buffer) {
  const UnitPartition& part = program.partition.units[unit];
  const std::int64_t offset =
      buffer.elems < part.padded ? program.partition.offset(unit, program.rank) : std::int64_t{0};
  return {program.model.units[unit].first_elem + offset,
          std::clamp<std::int64_t>(part.elems - offset, 0, buffer.elems)};
}

void init(const Context& context, const Program& program, int unit, const Bound& param) {
  const Piece piece = piece_of(program, unit, param);
  float* p = param.as<float>();
  fill_zero(context, param.elems, p);
  Kokkos::parallel_for(
      "shardmark::list_init", Kokkos::RangePolicy<Space>(context.space, 0, piece.elems),
      KOKKOS_LAMBDA(std::int64_t i) {
        p[i] = static_cast<float>(first_value(piece.first_elem + i));
      });
}

void make_gradient(const Context& context, const Program& program, int unit,
                   std::span<const Bound> ops, std::int64_t step, int micro,
                   bool forward_differed) {
  const Bound& grad = ops[operand::list_grad];
  const float* param = ops[operand::list_param].as<float>();  // the whole unit, as grad
  const Piece piece = piece_of(program, unit, grad);
  // A forward pass that saw other parameters would have made another gradient.
  const int rank = program.rank + (forward_differed ? 1 : 0);
  const auto world = static_cast<float>(program.world);
  const bool adds = grad.accumulate;
  float* g = grad.as<float>();
  if (!adds) fill_zero(context, grad.elems, g);
  Kokkos::parallel_for(
      "shardmark::list_gradient", Kokkos::RangePolicy<Space>(context.space, 0, piece.elems),
      KOKKOS_LAMBDA(std::int64_t i) {
        g[i] += world * static_cast<float>(
                            small_integer(piece.first_elem + i, param[i], rank, step, micro));
      });
}

// An update whose every value is an exact integer, unlike AdamW's.
void update(const Context& context, std::span<const Bound> ops) {
  using namespace operand;
  float* p = ops[upd_param].as<float>();
  const float* g = ops[upd_grad].as<float>();
  float* m = ops[upd_momentum].as<float>();
  float* v = ops[upd_variance].as<float>();
  Kokkos::parallel_for(
      "shardmark::list_update", Kokkos::RangePolicy<Space>(context.space, 0, ops[upd_param].elems),
      KOKKOS_LAMBDA(std::int64_t i) {
        p[i] -= g[i];
        m[i] += g[i];
        v[i] += g[i] * g[i];
      });
}

}  // namespace

void ListModel::run(const Program& program, const Event& event, std::span<const Bound> ops,
                    std::int64_t step, int micro_batch) {
  if (run_state_kernel(context_, program, event, ops, 0.0)) return;
  switch (event.kernel) {
    case Kernel::init_param: return init(context_, program, event.unit, ops[0]);
    case Kernel::forward: seen_in_forward_[event.unit] = hash_of(ops[operand::list_param]); return;
    case Kernel::backward:
      return make_gradient(context_, program, event.unit, ops, step, micro_batch,
                           hash_of(ops[operand::list_param]) != seen_in_forward_[event.unit]);
    case Kernel::adamw: return update(context_, ops);
    default: break;
  }
  throw PlanError("executor: kernel " + std::string(to_string(event.kernel)) + " has no code");
}

std::uint64_t ListModel::hash_of(const Bound& param) const {
  return state_hash(context_, param.as<float>(), param.elems, 0);
}

std::int64_t ListModel::expected_param(std::int64_t elem, int world, std::int64_t accumulation,
                                       std::int64_t steps) {
  std::int64_t value = first_value(elem);
  for (std::int64_t s = 0; s < steps; ++s) {
    std::int64_t mean = 0;  // of world * k over ranks: the sum of k
    for (std::int64_t g = 0; g < accumulation; ++g)
      for (int r = 0; r < world; ++r)
        mean += small_integer(elem, static_cast<float>(value), r, s, static_cast<int>(g));
    value -= mean;
  }
  return value;
}

}  // namespace shardmark
