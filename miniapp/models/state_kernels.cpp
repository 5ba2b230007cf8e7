// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <string>

#include <core/error.hpp>
#include <core/nn/kernels/quantize.hpp>
#include <core/nn/kernels/quantize_int4.hpp>
#include <core/nn/kernels/storage.hpp>
#include <core/nn/optimizer/grad_norm.hpp>
#include <core/nn/optimizer/muon.hpp>
#include <core/plan/kernels.hpp>
#include <miniapp/models/state_kernels.hpp>

namespace shardmark {

namespace {

Stored stored(const Bound& b) {
  return {b.dtype, b.data};
}

void grad_norm(const Context& context, bool exact, std::span<const Bound> ops) {
  for (std::size_t i = 1; i < ops.size(); ++i) {
    const bool first = i == 1 && !ops[0].accumulate;
    if (exact)
      sum_squares_exact(context, ops[i].elems, stored(ops[i]), ops[0].as<std::int64_t>(), first);
    else
      sum_squares(context, ops[i].elems, stored(ops[i]), ops[0].as<double>(), first);
  }
}

void overflow(const Context& context, std::span<const Bound> ops) {
  if (ops.size() == 1) return clear(context, 1, ops[0].data);
  for (std::size_t i = 1; i < ops.size(); ++i)
    flag_not_finite(context, ops[i].elems, stored(ops[i]), ops[0].as<std::uint8_t>(),
                    i == 1 && !ops[0].accumulate);
}

// The sums of each kind, over gradients and over updates, are added up in its first one.
void clip(const Context& context, const Program& program, const Event& event,
          std::span<const Bound> ops, ClipRule rule) {
  auto* out = ops[0].as<double>();
  if (ops.size() == 1) return clip_without_norm(context, rule, out);
  const bool exact = program.reductions == Reductions::ordered;
  const Bound *grads = nullptr, *updates = nullptr;
  for (std::size_t i = 1; i < ops.size(); ++i) {
    const Bound*& first = sums_updates(program, event, static_cast<int>(i) - 1) ? updates : grads;
    if (first == nullptr)
      first = &ops[i];
    else if (exact)
      add_limbs(context, first->as<std::int64_t>(), ops[i].as<std::int64_t>());
    else
      add_sum(context, first->as<double>(), ops[i].as<double>());
  }
  if (exact)
    clip_from_limbs(context, grads != nullptr ? grads->as<std::int64_t>() : nullptr, rule, out,
                    updates != nullptr ? updates->as<std::int64_t>() : nullptr);
  else
    clip_from_sum(context, grads != nullptr ? grads->as<double>() : nullptr, rule, out,
                  updates != nullptr ? updates->as<double>() : nullptr);
}

}  // namespace

bool run_state_kernel(const Context& context, const Program& program, const Event& event,
                      std::span<const Bound> ops, const ClipRule& clipping) {
  const bool exact = program.reductions == Reductions::ordered;
  const int rows = program.size_of(event.group);
  const auto row_elems = [&](std::size_t operand) {
    const Operand& o = program.operands[event.operands.first + static_cast<int>(operand)];
    return program.slots[o.slot].elems / rows;
  };
  switch (event.kernel) {
    case Kernel::zero:
      clear(context, ops[0].elems * dtype_bytes(ops[0].dtype), ops[0].data);
      return true;
    case Kernel::convert:
      convert(context, ops[0].elems, stored(ops[0]), stored(ops[1]), event.divisor);
      return true;
    case Kernel::accumulate:
      accumulate(context, ops[0].elems, stored(ops[0]), stored(ops[1]));
      return true;
    case Kernel::scale: divide(context, ops[0].elems, stored(ops[0]), event.divisor); return true;
    case Kernel::interleave:
      // The operand ends with the last row's shard.
      interleave(context, ops[1].elems, rows, row_elems(0), stored(ops[0]), stored(ops[1]),
                 event.divisor, ops[0].elems - (rows - 1) * row_elems(0));
      return true;
    case Kernel::rearrange:
      rearrange(context, ops[0].elems, rows, row_elems(1), stored(ops[0]), stored(ops[1]));
      return true;
    case Kernel::quantize:
      quantize(context, ops[0].elems, ops[1].elems, ops[0].as<std::int8_t>(), ops[1].as<float>(),
               ops[2].as<Fp16>());
      return true;
    case Kernel::dequantize:
      dequantize(context, ops[0].elems, ops[2].elems, ops[0].as<Fp16>(), ops[1].as<std::int8_t>(),
                 ops[2].as<float>());
      return true;
    case Kernel::quantize_int4:
      quantize_int4(context, ops[2].elems, ops[1].elems, program.world / rows, rows,
                    ops[0].as<std::int8_t>(), ops[1].as<float>(), ops[2].as<Fp16>());
      return true;
    case Kernel::reduce_int4:
      reduce_int4(context, 2 * ops[0].elems, ops[1].elems, rows, ops[0].as<std::int8_t>(),
                  ops[1].as<float>(), ops[2].as<std::int8_t>(), ops[3].as<float>());
      return true;
    case Kernel::dequantize_int4:
      dequantize_int4(context, ops[0].elems, ops[2].elems, ops[0].as<Fp16>(),
                      ops[1].as<std::int8_t>(), ops[2].as<float>());
      return true;
    case Kernel::sum_parts:
      sum_parts(context, ops[0].elems, rows, ops[0].as<Fp16>(), ops[1].as<Fp16>());
      return true;
    case Kernel::overflow: overflow(context, ops); return true;
    case Kernel::grad_norm: grad_norm(context, exact, ops); return true;
    case Kernel::clip: clip(context, program, event, ops, clipping); return true;
    case Kernel::clip_gradient:
      clip_gradient(context, ops[0].elems, stored(ops[0]), ops[1].as<double>() + 1);
      return true;
    case Kernel::unscale:
      divide(context, ops[0].elems, stored(ops[0]), clipping.made_scale);
      return true;
    case Kernel::rescale:
      divide(context, ops[0].elems, stored(ops[0]), 1 / clipping.made_scale);
      return true;
    default: return false;
  }
}

AdamWStep adamw_step(const OptimizerSpec& o, double lr, std::int64_t step) {
  AdamWStep s{lr, o.beta1, o.beta2, o.eps, o.weight_decay, step};
  s.decoupled = traits(o.type).decoupled_decay;
  s.bias_correction = o.bias_correction;
  return s;
}

void update_states(const Context& context, const Program& program, const Event& event,
                   const OptimizerSpec& o, std::int64_t step, double unscale,
                   std::span<const Bound> ops) {
  const UpdateOperands found = update_operands(program, event);
  const auto at = [&](int operand) -> const Bound& { return ops[operand]; };
  const std::int64_t elems = ops[operand::upd_master].elems;
  auto* master = ops[operand::upd_master].as<float>();
  const ConstStored grad{ops[operand::upd_grad].dtype, ops[operand::upd_grad].data};
  const auto moment = [&](int i) {
    return i < found.moments ? at(static_cast<int>(operand::upd_moments) + i).as<float>() : nullptr;
  };
  const double* clip = found.clip < 0 ? nullptr : at(found.clip).as<double>() + 1;
  std::optional<Stored> rounded;
  if (found.param >= 0) rounded.emplace(at(found.param).dtype, at(found.param).data);
  switch (event.kernel) {
    case Kernel::adamw:
      return adamw_update(context, elems, master, grad, moment(0), moment(1),
                          adamw_step(o, is_muon(o.type) ? o.adam_lr : o.lr, step), clip, rounded);
    case Kernel::lion: {
      const LionStep s{o.lr, o.beta1, o.beta2, o.weight_decay, program.zero_is_positive};
      return lion_update(context, elems, master, grad, moment(0), s, clip, rounded);
    }
    case Kernel::sgd: {
      const SgdStep s{o.lr, o.momentum, o.dampening, o.weight_decay, o.nesterov, step};
      return sgd_update(context, elems, master, grad, moment(0), s, clip, rounded);
    }
    case Kernel::adagrad: {
      const AdagradStep s{o.lr, o.lr_decay, o.eps, o.weight_decay, o.first_accumulator, step};
      return adagrad_update(context, elems, master, grad, moment(0), s, clip, rounded);
    }
    case Kernel::muon:
      return muon_update(context, elems, master, grad,
                         {o.lr, o.weight_decay, program.updates_lack_scale ? unscale : 1}, clip,
                         rounded);
    default: break;
  }
  throw PlanError("executor: kernel " + std::string(to_string(event.kernel)) + " updates nothing");
}

void orthogonalize(const Context& context, const Program& program, const Event& event,
                   const OptimizerSpec& o, std::span<const Bound> ops) {
  const Param& param = program.model.params[program.param_ids[event.params.first]];
  const MuonMatrix matrix{param.shape[0], param.shape[1], o.type, o.momentum};
  const bool in_place = ops[1].accumulate;
  muon_orthogonalize(context, matrix, stored(ops[0]), stored(ops[1]), stored(ops[in_place ? 1 : 2]),
                     ops.back().span<std::byte>());
}

}  // namespace shardmark
