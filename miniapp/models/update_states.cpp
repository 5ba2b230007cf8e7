// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <string>

#include <core/error.hpp>
#include <core/nn/optimizer/adagrad.hpp>
#include <core/nn/optimizer/lion.hpp>
#include <core/nn/optimizer/muon.hpp>
#include <core/nn/optimizer/sgd.hpp>
#include <core/plan/kernels.hpp>
#include <miniapp/models/update_states.hpp>

namespace shardmark {

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
  const auto at = [&](int operand) -> const Bound& {
    return ops[static_cast<std::size_t>(operand)];
  };
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
  const auto stored = [](const Bound& b) { return Stored(b.dtype, b.data); };
  const bool in_place = ops[1].accumulate;
  muon_orthogonalize(context, matrix, stored(ops[0]), stored(ops[1]), stored(ops[in_place ? 1 : 2]),
                     ops.back().span<std::byte>());
}

}  // namespace shardmark
