// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include <Kokkos_Core.hpp>

#include <core/error.hpp>
#include <core/kokkos_shim.hpp>
#include <core/nn/optimizer/init.hpp>
#include <core/numeric/half.hpp>
#include <core/plan/kernels.hpp>
#include <miniapp/models/list_model.hpp>
#include <miniapp/models/state_kernels.hpp>

namespace shardmark {
namespace {

// A number from -2 to 2. Like a real gradient it depends on the bits of the parameter that this
// rank sees, so a gather that delivers wrong data changes the result.
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

// What the gradient of an element depends on, besides the element.
struct Maker {
  std::int64_t first_elem, step;
  int rank, micro;
  float scale;  // world size times loss scale
  bool adds;
};

template<class T>
void make_gradient(const Context& context, const Maker& maker, std::int64_t elems, const T* param,
                   T* grad) {
  Kokkos::parallel_for(
      "shardmark::list_gradient", Kokkos::RangePolicy<Space>(context.space, 0, elems),
      KOKKOS_LAMBDA(std::int64_t i) {
        const int k = small_integer(maker.first_elem + i, widen(param[i]), maker.rank, maker.step,
                                    maker.micro);
        const float made = maker.scale * static_cast<float>(k);
        round_to(grad[i], maker.adds ? widen(grad[i]) + made : made);
      });
}

template<class T>
void first_values(const Context& context, std::int64_t first_elem, std::int64_t elems, T* param) {
  Kokkos::parallel_for(
      "shardmark::list_init", Kokkos::RangePolicy<Space>(context.space, 0, elems),
      KOKKOS_LAMBDA(std::int64_t i) {
        round_to(param[i], static_cast<float>(first_value(first_elem + i)));
      });
}

// The operands of an update; a moment that the optimizer does not keep is null.
struct ListUpdate {
  const Bound *master, *grad, *momentum, *variance, *clip, *param;
};

ListUpdate operands_of(const Program& program, const Event& event, std::span<const Bound> ops) {
  const UpdateOperands found = update_operands(program, event);
  const auto at = [&](int i) { return &ops[i]; };
  ListUpdate u{at(operand::upd_master),
               at(operand::upd_grad),
               nullptr,
               nullptr,
               found.clip < 0 ? nullptr : at(found.clip),
               found.param < 0 ? nullptr : at(found.param)};
  int next = operand::upd_moments;
  for (const State state : traits(program.optimizer).moments)
    if (next < static_cast<int>(operand::upd_moments) + found.moments)
      (state == State::momentum ? u.momentum : u.variance) = at(next++);
  return u;
}

// An update in which every value is an exact integer, unlike in AdamW. The clip's coefficient
// removes the scale of the gradient, unless clip_gradient did so before.
template<class Master, class Grad>
void update_typed(const Context& context, const ListUpdate& u) {
  auto* p = u.master->as<Master>();
  const auto* scaled = u.grad->as<const Grad>();
  auto* m = u.momentum != nullptr ? u.momentum->as<Master>() : nullptr;
  auto* v = u.variance != nullptr ? u.variance->as<Master>() : nullptr;
  const double* coefficient = u.clip != nullptr ? u.clip->as<double>() + 1 : nullptr;
  Kokkos::parallel_for(
      "shardmark::list_update", Kokkos::RangePolicy<Space>(context.space, 0, u.master->elems),
      KOKKOS_LAMBDA(std::int64_t i) {
        const auto g =
            static_cast<float>(widen(scaled[i]) * (coefficient != nullptr ? *coefficient : 1.0));
        round_to(p[i], widen(p[i]) - g);
        if (m != nullptr) round_to(m[i], widen(m[i]) + g);
        if (v != nullptr) round_to(v[i], widen(v[i]) + g * g);
      });
}

void update(const Context& context, const ListUpdate& u) {
  with_storage(u.master->dtype, [&](auto master) {
    with_storage(u.grad->dtype,
                 [&](auto grad) { update_typed<decltype(master), decltype(grad)>(context, u); });
  });
  if (u.param == nullptr) return;
  convert(context, u.master->elems, {u.param->dtype, u.param->data},
          {u.master->dtype, u.master->data});
}

// Instead of Muon's update: the gradient stays as it is.
template<class T>
void add_to_momentum(const Context& context, std::span<const Bound> ops) {
  const auto* gradient = ops[0].as<const T>();
  auto* staged = ops[1].as<T>();
  const auto* momentum = ops[1].accumulate ? staged : ops[2].as<const T>();
  Kokkos::parallel_for(
      "shardmark::list_momentum", Kokkos::RangePolicy<Space>(context.space, 0, ops[0].elems),
      KOKKOS_LAMBDA(std::int64_t i) {
        round_to(staged[i], widen(momentum[i]) + widen(gradient[i]));
      });
}

double loss_scale(const Program& program, const StepValues& values) {
  return program.scales_loss ? values.loss_scale : 1.0;
}

float rounded(float value, Dtype dtype) {
  if (dtype == Dtype::bf16) return widen(round_bf16(value));
  if (dtype == Dtype::fp16) return widen(round_fp16(value));
  return value;
}

}  // namespace

void ListModel::run(const Program& program, const Event& event, std::span<const Bound> ops,
                    const StepValues& values) {
  // Gradients are divided by the scale with which they were made, so that integers stay exact.
  const double scale = loss_scale(program, values);
  if (run_state_kernel(context_, program, event, ops, {.loss_scale = scale, .made_scale = scale}))
    return;
  switch (event.kernel) {
    case Kernel::init_param: return init(program, event, ops[0]);
    case Kernel::forward: return forward(event, program, ops);
    case Kernel::backward: return backward(event, program, ops, values);
    case Kernel::orthogonalize:
      return with_storage(ops[0].dtype,
                          [&](auto type) { add_to_momentum<decltype(type)>(context_, ops); });
    default: break;
  }
  if (is_update(event.kernel)) return update(context_, operands_of(program, event, ops));
  throw PlanError("executor: kernel " + std::string(to_string(event.kernel)) + " has no code");
}

void ListModel::init(const Program& program, const Event& event, const Bound& param) const {
  const std::int64_t first =
      program.model.params[program.param_ids[event.params.first]].first_elem + event.first;
  with_storage(param.dtype, [&](auto type) {
    first_values(context_, first, param.elems, param.as<decltype(type)>());
  });
}

void ListModel::forward(const Event& event, const Program& program, std::span<const Bound> ops) {
  for (int i = 0; i < event.params.count; ++i)
    seen_in_forward_[program.param_ids[event.params.first + i]] = hash_of(ops[i]);
}

void ListModel::backward(const Event& event, const Program& program, std::span<const Bound> ops,
                         const StepValues& values) const {
  for (int i = 0; i < event.params.count; ++i) {
    const int id = program.param_ids[event.params.first + i];
    const Bound &param = ops[i], &grad = ops[event.params.count + i];
    // A forward pass that saw other parameters would lead to another gradient.
    const auto seen = seen_in_forward_.find(id);
    const bool differed = seen == seen_in_forward_.end() || seen->second != hash_of(param);
    const Maker maker{program.model.params[id].first_elem,
                      values.step,
                      program.partition_rank() + (differed ? 1 : 0),
                      values.micro_batch,
                      static_cast<float>(program.partition_ranks() * loss_scale(program, values)),
                      grad.accumulate};
    with_storage(param.dtype, [&](auto type) {
      using T = decltype(type);
      make_gradient(context_, maker, grad.elems, param.as<T>(), grad.as<T>());
    });
  }
}

std::uint64_t ListModel::hash_of(const Bound& param) const {
  return state_hash(context_, {param.dtype, param.data}, param.elems, 0);
}

double ListModel::expected_param(std::int64_t elem, int world, std::int64_t accumulation,
                                 std::int64_t steps, Dtype dtype, std::int64_t gain) {
  auto value = static_cast<double>(first_value(elem));
  for (std::int64_t s = 0; s < steps; ++s) {
    const float seen = rounded(static_cast<float>(value), dtype);
    std::int64_t mean = 0;  // over ranks of world * k, which is the sum of k
    for (std::int64_t g = 0; g < accumulation; ++g)
      for (int r = 0; r < world; ++r) mean += small_integer(elem, seen, r, s, static_cast<int>(g));
    value -= static_cast<double>(mean * gain);
  }
  return value;
}

}  // namespace shardmark
