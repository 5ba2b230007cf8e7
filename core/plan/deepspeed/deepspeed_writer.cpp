// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <core/exact_sum.hpp>
#include <core/plan/collective_scratch.hpp>
#include <core/plan/deepspeed/deepspeed_writer.hpp>

namespace shardmark {

DeepSpeedWriter::DeepSpeedWriter(Program& program, const Deck& deck, const Profile& profile)
    : p_(program),
      deck_(deck),
      profile_(profile),
      knobs_(deck.zero.knobs),
      precision_(deck.zero.precision),
      w_(program),
      compute_(program, w_, deck, profile),
      grads_(program.model.params.size(), no_slot),
      uses_(program.model.params.size()),
      order_(gradient_ready_order(program.model,
                                  program.stage == 3 && knobs_.memory_efficient_linear)) {
  for (int m : p_.model.computing(VisitKind::pre_backward))
    for (int id : p_.model.params_of(m)) ++uses_[id];
  declare_staging();
}

void RepeatedStepWriter::write_step(bool may_skip) {
  Step step;
  const auto last = static_cast<int>(p_.batch.accumulation) - 1;
  step.micros.push_back(micro(last == 0 ? "micro_only" : "micro_first", 0));
  if (last > 1) step.micros.resize(last, micro("micro_middle", 1));
  if (last > 0) step.micros.push_back(micro("micro_last", last));
  step.boundary = boundary();
  const EndState closed = p_.segments[step.boundary].exit;
  step.update = update();
  if (may_skip) {
    w_.resume(closed);
    step.skip = skip();
  }
  p_.steps.push_back(std::move(step));
}

// One staging buffer serves every collective: the lane runs them one after another.
void DeepSpeedWriter::declare_staging() {
  std::int64_t bytes = 0;
  auto need = [&](Op op, Dtype dtype) {
    bytes = std::max(bytes, collective_scratch_bytes(op, dtype, p_.partition.padded, world(),
                                                     p_.reductions, profile_.staging_cap_bytes));
  };
  need(Op::all_reduce, precision_.comm);
  const bool flat = p_.stage == 1 || p_.stage == 2;
  if (flat && !knobs_.use_multi_rank_bucket_allreduce) need(Op::reduce, precision_.comm);
  if (p_.stage == 3) need(Op::reduce_scatter, precision_.comm);
  if (p_.stage == 3 && knobs_.use_all_reduce_for_fetch_params)
    need(Op::all_reduce, precision_.model);
  if (bytes > 0) staging_ = w_.slot("staging", Category::staging, Dtype::uint8, bytes);
}

int DeepSpeedWriter::lazily(int& slot, const std::string& name, Category category, Dtype dtype,
                            std::int64_t elems, std::string_view kind) {
  if (slot == no_slot) slot = w_.slot(name, category, dtype, elems, Tier::device, kind);
  return slot;
}

void DeepSpeedWriter::acquire_shared() {
  for (int s : compute_.persistent()) w_.acquire(s);
}

void DeepSpeedWriter::end(Gradients gradients) {
  if (staging_ != no_slot && w_.alive(staging_)) w_.release(staging_);
  w_.end(gradients);
}

void DeepSpeedWriter::collective(Op op, Reduction reduction, Operand send, Operand receive,
                                 const std::vector<int>& params, int root, int group) {
  if (staging_ != no_slot && is_reduction(op) && !w_.alive(staging_)) w_.acquire(staging_);
  write_collective(w_, p_, profile_, staging_, op, reduction, send, receive, params, root, group);
}

void DeepSpeedWriter::broadcast_bytes(Operand tensor, int param) {
  const std::int64_t bytes = tensor.elems * dtype_bytes(w_[tensor.slot].dtype);
  tensor.reads = true, tensor.writes = false;
  Operand receive = tensor;
  receive.reads = false, receive.writes = true;
  const std::vector<Operand> operands{tensor, receive};
  w_.collective(Op::broadcast, Reduction::none, Dtype::uint8, bytes, operands, {&param, 1}, 0, 0);
}

void DeepSpeedWriter::convert(Operand into, Operand from, double divisor) {
  w_.compute(Kernel::convert, {into, from}).divisor = divisor;
}

bool DeepSpeedWriter::travels_itself(int buffer) const {
  return w_[buffer].dtype == precision_.comm;
}

DeepSpeedWriter::Divided DeepSpeedWriter::beside_copies(int buffer, Divisors divisors) const {
  if (ordered()) return {};
  return travels_itself(buffer) ? Divided{divisors, {}} : Divided{{}, divisors};
}

void DeepSpeedWriter::divide(Operand data, double divisor) {
  if (divisor == 1) return;
  data.reads = data.writes = true;
  w_.compute(Kernel::scale, {data}).divisor = divisor;
}

Divisors DeepSpeedWriter::predivided() const {
  const auto ranks = static_cast<double>(world());
  const double factor = knobs_.gradient_predivide_factor;
  if (!averages()) return {};
  if (knobs_.prescale_gradients) return {ranks, 1};
  return {factor, factor == ranks ? 1 : ranks / factor};
}

void DeepSpeedWriter::all_reduce(Operand data, Divisors divisors, const std::vector<int>& params) {
  if (ordered()) divisors = {};
  const auto reduce = [&](Operand wire) {
    divide(wire, divisors.before);
    collective(Op::all_reduce, gradient_reduction(), wire, wire, params);
  };
  as_comm_type(data, reduce, divisors.after);
}

void DeepSpeedWriter::reduce_to(Operand data, int root, const std::vector<int>& params) {
  as_comm_type(data, [&](Operand wire) {
    collective(Op::reduce, gradient_reduction(), wire, wire, params, root);
  });
}

int DeepSpeedWriter::grad_slot(int param) {
  return lazily(grads_[param], "grad." + name(param), Category::grad, precision_.model,
                elems(param), recorded::grads);
}

void DeepSpeedWriter::begin_backward() {
  next_ready_ = 0;
  uses_left_ = uses_;
  made_.clear();
}

void DeepSpeedWriter::backward(int module, const std::vector<Operand>& params, bool adds) {
  std::vector<Operand> grads;
  for (int id : p_.model.params_of(module)) {
    const int slot = grad_slot(id);
    if (!w_.alive(slot)) w_.acquire(slot);
    const bool begun = !made_.insert(id).second;
    grads.push_back(w_.whole(slot, adds || begun, true));
  }
  compute_.backward(module, params, grads);
}

std::vector<int> DeepSpeedWriter::ready_after(int module) {
  for (int id : p_.model.params_of(module)) --uses_left_[id];
  std::vector<int> ready;
  while (next_ready_ < order_.size() && uses_left_[order_[next_ready_]] <= 0)
    ready.push_back(order_[next_ready_++]);
  return ready;
}

void DeepSpeedWriter::declare_sums(int sums) {
  const bool limbs = ordered();
  for (int i = static_cast<int>(sums_.size()); i < sums; ++i) {
    const std::string number = sums > 1 ? "." + std::to_string(i) : "";
    sums_.push_back(w_.slot("norm_sum" + number, Category::workspace,
                            limbs ? Dtype::int64 : Dtype::fp64, limbs ? exact_sum_limbs : 1));
    sum_wires_.push_back(no_slot);
  }
}

void DeepSpeedWriter::acquire_step_scalars(int sums) {
  declare_sums(sums);
  for (int i = 0; i < sums; ++i) w_.acquire(sums_[i]);
  w_.acquire(lazily(clip_, "clip", Category::workspace, Dtype::fp64, 2));
}

void DeepSpeedWriter::release_step_scalars() {
  for (const std::vector<int>& sums : {sums_, host_sums_})
    for (int s : sums)
      if (w_.alive(s)) w_.release(s);
  for (int clip : {clip_, host_clip_})
    if (clip != no_slot && w_.alive(clip)) w_.release(clip);
}

void DeepSpeedWriter::overflow_flag(const std::vector<Operand>& grads, bool reduced) {
  acquire_flag();
  std::vector<Operand> operands{w_.write(flag_)};
  operands.insert(operands.end(), grads.begin(), grads.end());
  w_.compute(Kernel::overflow, operands);
  if (reduced) reduce_flag();
}

void DeepSpeedWriter::acquire_flag() {
  w_.acquire(lazily(flag_, "overflow", Category::workspace, Dtype::uint8, 1));
}

void DeepSpeedWriter::reduce_flag() {
  const std::vector<Operand> flags{w_.read(flag_), w_.write(flag_)};
  w_.collective(Op::all_reduce, Reduction::max, Dtype::uint8, 1, flags);
}

void DeepSpeedWriter::sum_of_squares(int i, const std::vector<Operand>& grads) {
  std::vector<Operand> operands{w_.write(sums_[i])};
  operands.insert(operands.end(), grads.begin(), grads.end());
  w_.compute(grads.empty() ? Kernel::zero : Kernel::grad_norm, operands);
}

void DeepSpeedWriter::reduce_sum(int i, Dtype wire, bool replicated) {
  const int sum = sums_[i];
  auto reduce = [&](int slot, Reduction reduction) {
    const std::vector<Operand> operands{w_.read(slot), w_.write(slot)};
    w_.collective(Op::all_reduce, reduction, w_[slot].dtype, w_[slot].elems, operands);
  };
  if (ordered()) {  // what every rank has already stays exactly that
    reduce(sum, replicated ? Reduction::max : Reduction::sum);
    return;
  }
  if (wire == w_[sum].dtype) {
    reduce(sum, Reduction::sum);
  } else {
    const int narrow = lazily(sum_wires_[i], w_[sum].name + ".wire", Category::workspace, wire, 1);
    w_.acquire(narrow);
    w_.compute(Kernel::convert, {w_.write(narrow), w_.read(sum)});
    reduce(narrow, Reduction::sum);
    w_.compute(Kernel::convert, {w_.write(sum), w_.read(narrow)});
    w_.release(narrow);
  }
  if (replicated) divide(w_.update(sum), world());
}

void DeepSpeedWriter::clip(int sums) {
  std::vector<Operand> operands{w_.write(clip_)};
  for (int i = 0; i < sums; ++i)  // the others are added to the first
    operands.push_back(i == 0 && sums > 1 ? w_.update(sums_[i]) : w_.read(sums_[i]));
  w_.compute(Kernel::clip, operands);
}

void DeepSpeedWriter::adamw(Operand master, Operand grad, Operand momentum, Operand variance,
                            const std::vector<int>& params, std::optional<Operand> rounded) {
  const int clip = w_[master.slot].tier == Tier::host ? host_clip_ : clip_;
  std::vector<Operand> operands{master, grad, momentum, variance, w_.read(clip)};
  if (rounded) operands.push_back(*rounded);
  w_.compute(Kernel::adamw, operands, params);
}

void write_deepspeed(Program& program, const Deck& deck, const Profile& profile) {
  if (program.stage == 0) return write_deepspeed_replicated(program, deck, profile);
  if (program.stage == 3) return write_deepspeed_sharded(program, deck, profile);
  write_deepspeed_flat(program, deck, profile);
}

}  // namespace shardmark
