// SPDX-License-Identifier: Apache-2.0
// The work of kernels over parameters, gradients and states; that of modules is in module_work.cpp.
#include <algorithm>

#include <core/plan/kernels.hpp>
#include <core/plan/work/work.hpp>

namespace shardmark {
namespace {

struct Touched {
  Dtype dtype;
  double elems;
};

// The name of an update's kernel in core/nn. A kernel that `rounds` also writes the parameter apart
// from the master.
std::string_view update_name(Kernel kernel, bool rounds) {
  switch (kernel) {
    case Kernel::lion: return rounds ? "lion_update_rounding" : "lion_update";
    case Kernel::sgd: return rounds ? "sgd_update_rounding" : "sgd_update";
    case Kernel::adagrad: return rounds ? "adagrad_update_rounding" : "adagrad_update";
    case Kernel::muon: return rounds ? "muon_update_rounding" : "muon_update";
    default: return rounds ? "adamw_update_rounding" : "adamw_update";
  }
}

class StateWork {
 public:
  StateWork(const Program& program, const Event& event, Work& work)
      : program_(program), event_(event), work_(work) {}

  // Returns whether the kernel is one of those below.
  bool add() {
    switch (event_.kernel) {
      case Kernel::zero:
        stream("clear", Dtype::uint8, Dtype::uint8, at(0).elems * bytes_of(at(0).dtype),
               at(0).elems * bytes_of(at(0).dtype));
        return true;
      case Kernel::load_batch:
        stream("load_batch", Dtype::int32, Dtype::int32, at(0).elems, 4 * at(0).elems);
        return true;
      case Kernel::accumulate: two("accumulate", 2, 1); return true;
      case Kernel::convert: convert(); return true;
      case Kernel::scale:
      case Kernel::unscale:
      case Kernel::rescale: one("divide", 0, 2); return true;
      case Kernel::interleave: moved("interleave", at(1)); return true;
      case Kernel::rearrange: moved("rearrange", at(0)); return true;
      case Kernel::split_heads:
      case Kernel::split_tokens: moved(to_string(event_.kernel), at(0)); return true;
      case Kernel::join_heads:
      case Kernel::join_tokens: moved(to_string(event_.kernel), at(1)); return true;
      case Kernel::quantize: quantized("quantize", at(0), at(2), 2); return true;
      case Kernel::dequantize: quantized("dequantize", at(0), at(1), 1); return true;
      case Kernel::quantize_int4: quantized("quantize_int4", at(0), at(2), 2); return true;
      case Kernel::reduce_int4: quantized("reduce_int4", at(0), at(2), 2); return true;
      case Kernel::dequantize_int4: quantized("dequantize_int4", at(0), at(1), 1); return true;
      case Kernel::sum_parts: quantized("sum_parts", at(0), at(1), 1); return true;
      case Kernel::orthogonalize:
        if (!program_.trains)
          stream("list_momentum", at(0).dtype, at(0).dtype, at(0).elems,
                 3 * at(0).elems * bytes_of(at(0).dtype));
        else
          add_muon_work(program_, event_, work_);
        return true;
      case Kernel::overflow: overflow(); return true;
      case Kernel::grad_norm: grad_norm(); return true;
      case Kernel::clip: clip(); return true;
      case Kernel::clip_gradient: one("clip_gradient", 0, 2); return true;
      default: break;
    }
    if (!is_update(event_.kernel)) return false;
    update();
    return true;
  }
  void list_module();

 private:
  static double bytes_of(Dtype d) { return static_cast<double>(dtype_bytes(d)); }
  bool exact() const { return program_.reductions == Reductions::ordered; }
  Touched at(int operand) const {
    const Operand& o = program_.operands[event_.operands.first + operand];
    return {program_.slots[o.slot].dtype, static_cast<double>(o.elems)};
  }
  Category category(int operand) const {
    return program_.slots[program_.operands[event_.operands.first + operand].slot].category;
  }
  bool updates(int operand) const {
    const Operand& o = program_.operands[event_.operands.first + operand];
    return o.reads && o.writes;
  }
  void stream(std::string_view kernel, Dtype dtype, Dtype source, double elems, double bytes,
              double launches = 1) {
    if (elems > 0)
      work_.streams.push_back({.kernel = kernel,
                               .dtype = dtype,
                               .source = source,
                               .elems = elems,
                               .bytes = bytes,
                               .launches = launches});
  }
  // A kernel over one operand that passes over it `passes` times.
  void one(std::string_view kernel, int operand, double passes) {
    const Touched x = at(operand);
    stream(kernel, x.dtype, x.dtype, x.elems, passes * x.elems * bytes_of(x.dtype));
  }
  // A kernel from operand 1 into operand 0.
  void two(std::string_view kernel, double passes_into, double passes_from) {
    const Touched into = at(0), from = at(1);
    stream(kernel, into.dtype, from.dtype, into.elems,
           into.elems * (passes_into * bytes_of(into.dtype) + passes_from * bytes_of(from.dtype)));
  }
  void convert() {
    const bool fp64 = at(0).dtype == Dtype::fp64 || at(1).dtype == Dtype::fp64;
    const bool both = at(0).dtype == Dtype::fp64 && at(1).dtype == Dtype::fp64;
    two(fp64 && !both ? "convert_fp64" : "convert", 1, 1);
    if (event_.phase == Phase::step && category(1) == Category::master)
      for (Stream& s : work_.streams) s.updated = true;
  }
  void moved(std::string_view kernel, Touched whole) {
    stream(kernel, whole.dtype, whole.dtype, whole.elems, 2 * whole.elems * bytes_of(whole.dtype));
  }
  // A kernel that passes `passes` times over what it reads.
  void quantized(std::string_view kernel, Touched into, Touched from, double passes) {
    stream(kernel, into.dtype, from.dtype, std::max(into.elems, from.elems),
           into.elems * bytes_of(into.dtype) + passes * from.elems * bytes_of(from.dtype));
  }
  void overflow() {
    if (event_.operands.count == 1 || !updates(0))
      stream("clear", Dtype::uint8, Dtype::uint8, 1, 1);
    for (int i = 1; i < event_.operands.count; ++i) one("flag_not_finite", i, 1);
  }
  void grad_norm() {
    for (int i = 1; i < event_.operands.count; ++i)
      one(exact() ? "sum_squares_exact" : "sum_squares", i, 1);
  }
  // Sums over Muon's updates are added up apart, if they lack the loss scale.
  int kinds_of_sums() const {
    const int sums = event_.operands.count - 1;
    int updates = 0;
    for (int i = 0; i < sums; ++i)
      if (sums_updates(program_, event_, i)) ++updates;
    return updates > 0 && updates < sums ? 2 : 1;
  }
  void clip() {
    const Touched sum = event_.operands.count > 1 ? at(1) : at(0);
    for (int i = 1 + kinds_of_sums(); i < event_.operands.count; ++i)
      stream(exact() ? "add_limbs" : "add_sum", sum.dtype, sum.dtype, 1,
             3 * sum.elems * bytes_of(sum.dtype));
    const std::string_view kernel = event_.operands.count == 1 ? "clip_without_norm"
                                    : exact()                  ? "clip_from_limbs"
                                                               : "clip_from_sum";
    stream(kernel, Dtype::fp64, Dtype::fp64, 1, 24);
  }
  // Master and moments are read and written, the gradient is read, and the parameter is written
  // where it is not the master itself.
  void update() {
    using namespace operand;
    const Touched master = at(upd_master), grad = at(upd_grad);
    const UpdateOperands found = update_operands(program_, event_);
    const bool rounds = found.param >= 0;
    const bool list = !program_.trains;
    double per_elem = 8 * (1 + found.moments) + bytes_of(grad.dtype);
    Dtype rounded = Dtype::fp32;
    if (rounds) {
      rounded = at(found.param).dtype;
      if (!list) per_elem += bytes_of(rounded);
    }
    stream(list ? "list_update" : update_name(event_.kernel, rounds), list ? Dtype::fp32 : rounded,
           grad.dtype, master.elems, master.elems * per_elem);
    if (list && rounds)
      stream("convert", rounded, master.dtype, master.elems,
             master.elems * (bytes_of(rounded) + bytes_of(master.dtype)));
  }

  const Program& program_;
  const Event& event_;
  Work& work_;
};

// A module that does not compute hashes its parameters, and makes gradients of integers.
void StateWork::list_module() {
  for (int i = 0; i < event_.params.count; ++i) {
    one("state_hash", i, 1);
    if (event_.kernel == Kernel::backward) {
      const Touched param = at(i);
      stream("list_gradient", param.dtype, param.dtype, param.elems,
             2 * param.elems * bytes_of(param.dtype));
    }
  }
}

}  // namespace

double Work::flops() const {
  double sum = 0;
  for (const Product& p : products) sum += p.flops();
  return sum;
}

double Work::streamed_bytes() const {
  double sum = 0;
  for (const Stream& s : streams) sum += s.bytes * s.launches;
  return sum;
}

double Work::launches() const {
  double sum = 0;
  for (const Product& p : products) sum += static_cast<double>(p.count);
  for (const Stream& s : streams) sum += s.launches;
  return sum;
}

Work work_of(const Program& program, const Event& event, const WorkOptions& options) {
  Work work;
  if (event.op != Op::compute) return work;
  StateWork states(program, event, work);
  if (!states.add() && event.kernel >= Kernel::forward &&
      event.kernel <= Kernel::attention_backward) {
    if (program.trains)
      add_module_work(program, event, options, work);
    else
      states.list_module();
  }
  // A rank without heads has parameters and activations without elements.
  std::erase_if(work.streams, [](const Stream& s) { return s.elems == 0; });
  return work;
}

}  // namespace shardmark
