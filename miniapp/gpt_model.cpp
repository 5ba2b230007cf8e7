// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <core/error.hpp>
#include <core/nn/adamw.hpp>
#include <core/nn/elementwise.hpp>
#include <core/nn/gpt2.hpp>
#include <core/nn/init.hpp>
#include <core/plan/kernels.hpp>
#include <miniapp/gpt_model.hpp>
#include <miniapp/state_kernels.hpp>

namespace shardmark {

namespace op = operand;

GptModel::GptModel(const Deck& deck, const Program& program, const Context& context,
                   TokenSource& tokens)
    : deck_(deck),
      context_(context),
      tokens_(tokens),
      dims_(gpt2_dims(deck.model, program.batch.micro)) {}

void GptModel::run(const Program& program, const Event& event, std::span<const Bound> operands,
                   std::int64_t step, int micro_batch) {
  if (run_state_kernel(context_, program, event, operands, deck_.zero.gradient_clipping)) return;
  switch (event.kernel) {
    case Kernel::init_param: return init_unit(program, event, operands[0]);
    case Kernel::load_batch: return load_batch(program, operands[0], step, micro_batch);
    case Kernel::forward: return forward(program, event, operands);
    case Kernel::backward: return backward(program, event, operands);
    case Kernel::adamw: return update(operands, step);
    default: break;
  }
  throw PlanError("executor: kernel " + std::string(to_string(event.kernel)) + " has no code");
}

// The buffer holds the unit from `first` on: all of it, or this rank's shard. What lies beyond the
// unit's last element is padding and stays zero for ever.
void GptModel::init_unit(const Program& program, const Event& event, const Bound& buffer) const {
  const Unit& unit = program.model.units[event.unit];
  const bool is_shard = buffer.elems < program.partition.units[event.unit].padded;
  const std::int64_t first =
      is_shard ? program.partition.offset(event.unit, program.rank) : std::int64_t{0};
  const std::int64_t end = first + buffer.elems;
  float* data = buffer.as<float>();
  fill_zero(context_, buffer.elems, data);
  for (int i = 0; i < unit.param_count; ++i) {
    const int id = unit.first_param + i;
    const Param& p = program.model.params[id];
    const std::int64_t begin = p.first_elem - unit.first_elem;  // within the unit
    const std::int64_t from = std::max(begin, first), to = std::min(begin + p.elems, end);
    if (from < to)
      init_param(context_, data + (from - first), to - from, from - begin, id, p.init, p.std,
                 deck_.run.seed);
  }
}

void GptModel::load_batch(const Program& program, const Bound& tokens, std::int64_t step,
                          int micro_batch) {
  tokens_.fill(step, first_sample(micro_batch, program.world, program.rank, program.batch.micro),
               program.batch.micro, tokens.as<std::int32_t>());
}

void GptModel::forward(const Program& program, const Event& event,
                       std::span<const Bound> ops) const {
  switch (program.model.units[event.unit].kind) {
    case UnitKind::embeddings:
      return embed_forward(context_, dims_, ops[op::embed_tokens].as<std::int32_t>(),
                           ops[op::embed_param].as<float>(), ops[op::embed_x_out].as<float>());
    case UnitKind::block:
      return block_forward(context_, dims_, ops[op::fwd_param].as<float>(),
                           ops[op::fwd_x_in].as<float>(), ops[op::fwd_x_out].as<float>(),
                           ops[op::fwd_saved].as<float>(),
                           ops[op::fwd_workspace].span<std::byte>());
    case UnitKind::head: {
      const float* wte = ops.size() > op::head_wte ? ops[op::head_wte].as<float>() : nullptr;
      // The loss of a step is the mean over its micro-batches: each one's gradient is scaled so.
      const float scale = 1.0F / static_cast<float>(program.batch.accumulation);
      return head_forward(context_, dims_, ops[op::head_param].as<float>(), wte,
                          ops[op::head_tokens].as<std::int32_t>(), ops[op::head_x_in].as<float>(),
                          ops[op::head_saved].as<float>(), ops[op::head_loss].as<double>(),
                          !ops[op::head_loss].accumulate, scale,
                          ops[op::head_workspace].span<std::byte>());
    }
    case UnitKind::list: break;
  }
}

void GptModel::backward(const Program& program, const Event& event,
                        std::span<const Bound> ops) const {
  const UnitPartition& part = program.partition.units[event.unit];
  const UnitKind kind = program.model.units[event.unit].kind;
  const std::size_t grad_index =
      kind == UnitKind::embeddings ? std::size_t{op::embed_bwd_grad} : std::size_t{op::bwd_grad};
  const Bound& grad = ops[grad_index];
  bool adds = grad.accumulate;
  switch (kind) {
    case UnitKind::embeddings: {
      const bool head_was_here = ops.size() > op::embed_bwd_rest;
      if (head_was_here) adds = ops[op::embed_bwd_rest].accumulate;
      embed_backward(context_, dims_, ops[op::embed_bwd_tokens].as<std::int32_t>(),
                     ops[op::embed_bwd_dx].as<float>(), grad.as<float>(), adds,
                     adds || head_was_here);
      break;
    }
    case UnitKind::block:
      block_backward(context_, dims_, ops[op::bwd_param].as<float>(), ops[op::bwd_x_in].as<float>(),
                     ops[op::bwd_saved].as<float>(), ops[op::bwd_dx].as<float>(), grad.as<float>(),
                     adds, ops[op::bwd_workspace].span<std::byte>());
      break;
    case UnitKind::head: {
      const bool tied = ops.size() > op::bwd_wte;
      head_backward(context_, dims_, ops[op::bwd_param].as<float>(),
                    tied ? ops[op::bwd_wte].as<float>() : nullptr, ops[op::bwd_x_in].as<float>(),
                    ops[op::bwd_saved].as<float>(), ops[op::bwd_dx].as<float>(), grad.as<float>(),
                    tied ? ops[op::bwd_wte_grad].as<float>() : nullptr, adds,
                    tied && ops[op::bwd_wte_grad].accumulate,
                    ops[op::bwd_workspace].span<std::byte>());
      break;
    }
    case UnitKind::list: break;
  }
  // Padding is reduced and squared with the rest, so it must be zero.
  if (!adds && part.padded > part.elems)
    fill_zero(context_, part.padded - part.elems, grad.as<float>() + part.elems);
}

void GptModel::update(std::span<const Bound> ops, std::int64_t step) const {
  const OptimizerSpec& o = deck_.zero.optimizer;
  const AdamWStep s{o.lr, o.beta1, o.beta2, o.eps, o.weight_decay, step + 1};
  const double* coefficient = ops[op::upd_clip].as<double>() + 1;
  adamw_update(context_, ops[op::upd_param].elems, ops[op::upd_param].as<float>(),
               ops[op::upd_grad].as<float>(), ops[op::upd_momentum].as<float>(),
               ops[op::upd_variance].as<float>(), s, coefficient);
}

}  // namespace shardmark
