// SPDX-License-Identifier: Apache-2.0
#include <core/plan/deepspeed/collectives.hpp>

namespace shardmark {

Collectives::Collectives(DeepSpeedContext& context)
    : DeepSpeedPart(context), staged_(w_, context.program, context.profile) {
  declare_scratch();
}

void Collectives::declare_scratch() {
  const ZeroKnobs& knobs = c_.knobs;
  const int stage = c_.stage();
  const Program& p = c_.program;
  const auto need = [&](Op op, Dtype dtype) {
    for (const Holders h : all_values<Holders>)
      staged_.need_over(p.mesh.ranks_of(h), op, dtype, p.partition.padded);
  };
  const bool flat = stage == 1 || stage == 2;
  for (Dtype sent : c_.sent_types()) {
    need(Op::all_reduce, sent);
    if (flat && !knobs.use_multi_rank_bucket_allreduce) need(Op::reduce, sent);
    if (stage == 3) need(Op::reduce_scatter, sent);
  }
  if (stage == 3 && knobs.use_all_reduce_for_fetch_params) need(Op::all_reduce, c_.precision.model);
  if (c_.folds())
    staged_.need(p.parts_group(Holders::all), Op::all_reduce, Dtype::fp32, p.partition.padded);
  staged_.declare();
}

void Collectives::issue(Op op, Reduction reduction, Operand send, Operand receive,
                        const std::vector<int>& params, int root, int group) {
  const int scratch = staged_.scratch();
  if (scratch != no_slot && is_reduction(op) && !w_.alive(scratch)) w_.acquire(scratch);
  staged_.issue(op, reduction, send, receive, params, root, group);
}

void Collectives::broadcast_bytes(Operand tensor, int param) {
  const std::int64_t bytes = tensor.elems * dtype_bytes(w_[tensor.slot].dtype);
  const std::vector<Operand> operands{w_.read(tensor), w_.write(tensor)};
  w_.collective(Op::broadcast, Reduction::none, Dtype::uint8, bytes, operands, {&param, 1},
                c_.program.group_of(c_.param(param).holders), 0);
}

Collectives::Divided Collectives::divided_by_copies(int buffer, Divisors divisors,
                                                    Dtype sent) const {
  if (c_.ordered()) return {};
  return w_[buffer].dtype == sent ? Divided{divisors, {}} : Divided{{}, divisors};
}

void Collectives::divide(Operand data, double divisor) {
  if (divisor != 1) w_.compute(Kernel::scale, {w_.update(data)}).divisor = divisor;
}

Divisors Collectives::predivided() const {
  const auto ranks = static_cast<double>(c_.world());
  const double factor = c_.knobs.gradient_predivide_factor;
  if (!c_.averages()) return {};
  if (c_.knobs.prescale_gradients) return {ranks, 1};
  return {factor, factor == ranks ? 1 : ranks / factor};
}

double Collectives::divisor_of(Holders holders) const {
  const bool averages = c_.ordered() && c_.averages();
  return averages ? static_cast<double>(c_.world()) / c_.program.mesh.ranks_of(holders) : 1;
}

void Collectives::all_reduce(Operand data, Divisors divisors, const std::vector<int>& params,
                             Dtype sent, Holders holders) {
  if (c_.ordered()) divisors = {divisor_of(holders), 1};
  const auto reduce = [&](Operand wire) {
    divide(wire, divisors.before);
    issue(Op::all_reduce, gradient_reduction(), wire, wire, params, -1,
          c_.program.group_of(holders));
  };
  in_type(sent, data, reduce, divisors.after);
}

void Collectives::reduce_to(Operand data, int root, const std::vector<int>& params, Dtype sent,
                            Holders holders) {
  in_type(sent, data, [&](Operand wire) {
    divide(wire, divisor_of(holders));
    issue(Op::reduce, gradient_reduction(), wire, wire, params, root, c_.program.group_of(holders));
  });
}

void Collectives::correct_folded(int param, Operand grad) {
  if (!c_.folds()) return;
  const Param& p = c_.param(param);
  const int group = c_.program.parts_group(Holders::all);
  const double ranks = c_.program.size_of(group);
  if (p.holders != Holders::all) return divide(grad, ranks);
  if (p.slice.cuts()) return;
  const auto average = [&](Operand data) {
    issue(Op::all_reduce, Reduction::sum, data, data, {}, -1, group);
    divide(data, ranks);
  };
  if (w_[grad.slot].dtype == Dtype::fp32) return average(grad);
  const int wire =
      c_.declare_once(folded_[static_cast<std::size_t>(param)], "folded." + c_.name(param),
                      Category::bucket, Dtype::fp32, c_.elems(param));
  w_.acquire(wire);
  w_.convert(w_.write(wire), w_.read(grad));
  average(w_.update(wire));
  w_.convert(w_.write(grad), w_.read(wire));
  w_.release(wire);
}

}  // namespace shardmark
