// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <numeric>
#include <utility>
#include <vector>

#include <core/error.hpp>
#include <core/nn/layers/sequence_parts.hpp>
#include <core/nn/models/transformer.hpp>
#include <core/nn/optimizer/init.hpp>
#include <core/plan/kernels.hpp>
#include <core/read_back.hpp>
#include <miniapp/models/state_kernels.hpp>
#include <miniapp/models/transformer_model.hpp>

namespace shardmark {
namespace {

constexpr std::size_t most_params = 4;  // of a module: experts have two weights and two biases

}  // namespace

TransformerModel::TransformerModel(const Deck& deck, const Program& program, const Context& context,
                                   std::unique_ptr<TokenSource> tokens)
    : deck_(deck),
      context_(context),
      tokens_(std::move(tokens)),
      dims_(transformer_dims(program)),
      expert_rows_(static_cast<std::size_t>(dims_.layers * dims_.decoder->moe.experts)) {}

void TransformerModel::run(const Program& program, const Event& event,
                           std::span<const Bound> operands, const StepValues& values) {
  if (run_state_kernel(
          context_, program, event, operands,
          {deck_.zero.gradient_clipping, values.unscale, values.norm_factor, values.loss_scale}))
    return;
  switch (event.kernel) {
    case Kernel::init_param: return init(program, event, operands[0]);
    case Kernel::load_batch: return load_batch(program, operands, values);
    case Kernel::forward: return forward(program, event, operands, values);
    case Kernel::backward: return backward(program, event, operands, values);
    case Kernel::forward_end:
    case Kernel::backward_end:
    case Kernel::forward_begin:
    case Kernel::backward_begin:
    case Kernel::attention:
    case Kernel::attention_backward: return complete_pass(program, event, operands, values);
    case Kernel::count_routed: return count_routed(event, operands[0], operands[1]);
    case Kernel::split_heads:
    case Kernel::join_heads:
    case Kernel::split_tokens:
    case Kernel::join_tokens: return move_parts(event.kernel, operands[0], operands[1]);
    case Kernel::orthogonalize:
      return orthogonalize(context_, program, event, deck_.zero.optimizer, operands);
    default: break;
  }
  if (is_update(event.kernel)) return update(program, event, operands, values);
  throw PlanError("executor: kernel " + std::string(to_string(event.kernel)) + " has no code");
}

void TransformerModel::init(const Program& program, const Event& event, const Bound& param) const {
  const int id = program.param_ids[event.params.first];
  const Param& p = program.model.params[id];
  init_param(context_, {param.dtype, param.data}, param.elems, event.first,
             p.drawn_as < 0 ? id : p.drawn_as, p.init, p.std, deck_.run.seed, p.slice);
}

void TransformerModel::load_batch(const Program& program, std::span<const Bound> into,
                                  const StepValues& values) const {
  const Bound& tokens = into[0];
  const auto fill = [&](std::int32_t* samples) {
    tokens_->fill(values.step,
                  first_sample(values.micro_batch, program.mesh.data_parts(),
                               program.mesh.data_part(), program.batch.micro),
                  program.batch.micro, samples);
  };
  const bool whole = !dims_.sequence_part.cuts();
  if (whole && device_is_host) return fill(tokens.as<std::int32_t>());
  const std::int64_t sequence = dims_.sequence * dims_.sequence_part.ranks;
  std::vector<std::int32_t> batch(static_cast<std::size_t>(dims_.micro_batch * (sequence + 1)));
  fill(batch.data());
  if (!whole) load_part(batch, into[1]);
  copy_to_device(context_.space, tokens.data, batch.data(),
                 static_cast<std::size_t>(tokens.elems) * sizeof batch[0]);
}

// Moves this rank's tokens of each sample to the front. The last one is only the label of the one
// before it, and the first of the next rank.
void TransformerModel::load_part(std::vector<std::int32_t>& batch, const Bound& positions) const {
  const std::int64_t own = dims_.sequence, all = own * dims_.sequence_part.ranks;
  const std::int64_t first = own * dims_.sequence_part.rank;
  std::vector<std::int64_t> places;
  for (std::int64_t sample = 0; sample < dims_.micro_batch; ++sample) {
    const auto from = batch.begin() + sample * (all + 1) + first;
    std::copy(from, from + own + 1, batch.begin() + sample * (own + 1));
    for (std::int64_t t = 0; t < own; ++t) places.push_back(first + t);
  }
  copy_to_device(context_.space, positions.data, places.data(), places.size() * sizeof places[0]);
}

void TransformerModel::move_parts(Kernel kernel, const Bound& into, const Bound& from) const {
  const bool splits = kernel == Kernel::split_heads || kernel == Kernel::split_tokens;
  const Bound& parts = splits ? into : from;
  const Bound& own = splits ? from : into;
  SequenceParts shape{dims_.micro_batch, dims_.sequence, dims_.sequence_part.ranks, 0};
  shape.channels = parts.elems / (dims_.rows() * shape.ranks);
  if (kernel == Kernel::split_heads || kernel == Kernel::join_heads)
    shape.copies = parts.elems * dtype_bytes(parts.dtype) / (own.elems * dtype_bytes(own.dtype));
  rearrange_parts(context_, kernel, shape, ConstStored{dims_.dtype, from.data},
                  Stored{dims_.dtype, into.data});
}

// The operands after the parameters and gradients, in the order in which the plan wrote them.
TransformerBuffers TransformerModel::buffers(const Program& program, const Event& event,
                                             std::span<const Bound> ops, const StepValues& values) {
  TransformerBuffers b;
  const Module& module = program.model.modules[event.module];
  b.layer = event.unit - 1;
  b.adapts = module.adapts;
  b.input_gradient = module.input_gradient;
  // The loss of a step is the mean over its micro-batches, so each gradient is divided by their
  // number.
  b.grad_scale = static_cast<float>(program.scales_loss ? values.loss_scale : 1.0) /
                 static_cast<float>(program.batch.accumulation);
  // Routers under torch's re-entrant checkpointing leave logits without a graph.
  b.balance_scale = program.model.reentrant ? 0 : b.grad_scale;
  // A block may run again in backward.
  if (module.role == Role::experts && event.phase == Phase::forward) {
    const auto count = static_cast<std::size_t>(dims_.decoder->moe.experts);
    b.expert_rows =
        std::span(expert_rows_).subspan(static_cast<std::size_t>(b.layer) * count, count);
  }
  std::size_t i = 0;
  for (const BufferUse& use : buffers_of(*dims_.decoder, module, event.kernel)) {
    const Bound& bound = ops[i++];
    b.at[use.buffer] = bound.data;
    if (use.buffer == ModuleBuffer::loss) b.first_loss = !bound.accumulate;
    if (use.buffer == ModuleBuffer::workspace) b.workspace = bound.span<std::byte>();
  }
  return b;
}

void TransformerModel::forward(const Program& program, const Event& event,
                               std::span<const Bound> ops, const StepValues& values) {
  const Role role = program.model.modules[event.module].role;
  const auto count = static_cast<std::size_t>(event.params.count);
  std::array<const void*, most_params> params{};
  for (std::size_t i = 0; i < count; ++i) params[i] = ops[i].data;
  transformer_forward(context_, dims_, role, params.data(),
                      buffers(program, event, ops.subspan(count), values));
}

void TransformerModel::backward(const Program& program, const Event& event,
                                std::span<const Bound> ops, const StepValues& values) {
  const Role role = program.model.modules[event.module].role;
  const auto count = static_cast<std::size_t>(event.params.count);
  std::array<const void*, most_params> params{};
  std::array<void*, most_params> grads{};
  std::size_t trained = 0, next = 2 * count, i = 0;
  for (const int id : program.model.params_of(event.module)) {
    const bool frozen = !program.model.params[id].trained();
    params[i] = ops[frozen ? next++ : trained].data;
    if (!frozen) grads[i] = ops[count + trained++].data;
    ++i;
  }
  transformer_backward(context_, dims_, role, params.data(), grads.data(),
                       count > 0 && ops[count].accumulate,
                       buffers(program, event, ops.subspan(next), values));
}

// What comes home is what went away.
void TransformerModel::count_routed(const Event& event, const Bound& counts_sent,
                                    const Bound& counts_received) {
  std::vector<std::int64_t> away = transformer_routed_parts(
      context_, dims_, counts_sent.as<std::int32_t>(), counts_received.as<std::int32_t>());
  std::vector<std::int64_t> home = away;
  const auto received = home.begin() + dims_.expert_part.ranks;
  if (event.phase == Phase::forward) {  // a block may run again in backward
    arrived_rows_.resize(static_cast<std::size_t>(dims_.layers));
    arrived_rows_[event.unit - 1] +=
        std::accumulate(received, home.end(), std::int64_t{0}) / dims_.hidden;
  }
  std::rotate(home.begin(), received, home.end());
  auto& parts = routed_parts_[event.module];
  parts[Routed::away] = std::move(away);
  parts[Routed::home] = std::move(home);
}

void TransformerModel::complete_pass(const Program& program, const Event& event,
                                     std::span<const Bound> ops, const StepValues& values) {
  const Role role = program.model.modules[event.module].role;
  const auto count = static_cast<std::size_t>(event.params.count);
  TransformerBuffers b = buffers(program, event, ops.subspan(count), values);
  if (count > 0) b.bias = ops[0].data;
  transformer_part(context_, dims_, event.kernel, role, b);
}

void TransformerModel::update(const Program& program, const Event& event,
                              std::span<const Bound> ops, const StepValues& values) const {
  const bool start_up = event.phase == Phase::init;  // before there is a scheduler of rates
  OptimizerSpec spec = deck_.zero.optimizer;
  if (!start_up) {
    spec.lr = values.lr;
    spec.adam_lr = values.adam_lr;
  }
  const std::int64_t step = start_up ? 1 : values.updates + program.start_up_updates + 1;
  update_states(context_, program, event, spec, step, values.unscale, ops);
}

}  // namespace shardmark
