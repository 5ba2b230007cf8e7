// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <core/plan/collective_scratch.hpp>
#include <core/plan/deepspeed/collectives.hpp>
#include <core/plan/write/state_writer.hpp>

namespace shardmark {

Collectives::Collectives(DeepSpeedContext& context) : c_(context), w_(context.writer) {
  declare_scratch();
}

// One buffer serves every collective, since the lane runs them one after another.
void Collectives::declare_scratch() {
  const ZeroKnobs& knobs = c_.knobs;
  const int stage = c_.stage();
  std::int64_t bytes = 0;
  auto need = [&](Op op, Dtype dtype) {
    for (const Holders h : all_values<Holders>)
      bytes =
          std::max(bytes, collective_scratch_bytes(
                              op, dtype, c_.program.partition.padded, c_.program.mesh.ranks_of(h),
                              c_.program.reductions, c_.profile.staging_cap_bytes));
  };
  const bool flat = stage == 1 || stage == 2;
  for (Dtype sent : c_.sent_types()) {
    need(Op::all_reduce, sent);
    if (flat && !knobs.use_multi_rank_bucket_allreduce) need(Op::reduce, sent);
    if (stage == 3) need(Op::reduce_scatter, sent);
  }
  if (stage == 3 && knobs.use_all_reduce_for_fetch_params) need(Op::all_reduce, c_.precision.model);
  if (c_.folds())  // core/plan/deepspeed/folded_gradients.hpp
    bytes = std::max(
        bytes, collective_scratch_bytes(Op::all_reduce, Dtype::fp32, c_.program.partition.padded,
                                        c_.program.mesh.tensor_ranks(), c_.program.reductions,
                                        c_.profile.staging_cap_bytes));
  if (bytes > 0) scratch_ = w_.slot("staging", Category::staging, Dtype::uint8, bytes);
}

void Collectives::issue(Op op, Reduction reduction, Operand send, Operand receive,
                        const std::vector<int>& params, int root, int group) {
  if (scratch_ != no_slot && is_reduction(op) && !w_.alive(scratch_)) w_.acquire(scratch_);
  write_collective(w_, c_.program, c_.profile, scratch_, op, reduction, send, receive, params, root,
                   group);
}

void Collectives::broadcast_bytes(Operand tensor, int param) {
  const std::int64_t bytes = tensor.elems * dtype_bytes(w_[tensor.slot].dtype);
  tensor.reads = true, tensor.writes = false;
  Operand receive = tensor;
  receive.reads = false, receive.writes = true;
  const std::vector<Operand> operands{tensor, receive};
  w_.collective(Op::broadcast, Reduction::none, Dtype::uint8, bytes, operands, {&param, 1},
                c_.program.group_of(c_.param(param).holders), 0);
}

Collectives::Divided Collectives::divided_by_copies(int buffer, Divisors divisors,
                                                    Dtype sent) const {
  if (c_.ordered()) return {};
  return w_[buffer].dtype == sent ? Divided{divisors, {}} : Divided{{}, divisors};
}

void Collectives::divide(Operand data, double divisor) {
  if (divisor == 1) return;
  data.reads = data.writes = true;
  w_.compute(Kernel::scale, {data}).divisor = divisor;
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

}  // namespace shardmark
