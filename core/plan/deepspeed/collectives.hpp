// SPDX-License-Identifier: Apache-2.0
// The collectives of a DeepSpeed schedule: with the scratch that they need, in the types in which
// DeepSpeed sends, and divided as DeepSpeed divides.
#pragma once

#include <string>
#include <vector>

#include <core/plan/deepspeed/deepspeed_context.hpp>
#include <core/plan/write/staged_collectives.hpp>

namespace shardmark {

/// The engine's own all_reduce flushes a bucket once it holds more elements than this;
/// reduce_bucket_size has no effect there.
inline constexpr std::int64_t engine_bucket_elems = 500'000'000;

/// What a reduced tensor is divided by before its sum and after it; 1 does not divide.
struct Divisors {
  double before = 1, after = 1;
};

/// Issues the collectives of a program, and holds the scratch that they share.
class Collectives : private DeepSpeedPart {
 public:
  /// Declares the scratch. The program's partition must be known.
  explicit Collectives(DeepSpeedContext& context);

  /// Issues a collective of the partition's ranks or another group, with the scratch that it needs.
  void issue(Op op, Reduction reduction, Operand send, Operand receive,
             const std::vector<int>& params, int root = -1, int group = of_partition);
  /// Frees the scratch. To be called before each segment ends, since scratch lives within one.
  void end_segment() { w_.drop(staged_.scratch()); }
  /// Broadcasts a parameter from rank 0 as bytes.
  void broadcast_bytes(Operand tensor, int param);

  /// Reduces `data` over the ranks that hold the parameters in place, and sends it as `sent`.
  /// `ordered` reductions divide within the sum instead, if the result is an average.
  void all_reduce(Operand data, Divisors divisors, const std::vector<int>& params, Dtype sent,
                  Holders holders = Holders::all);
  void reduce_to(Operand data, int root, const std::vector<int>& params, Dtype sent,
                 Holders holders);
  void divide(Operand data, double divisor);
  /// What DeepSpeed does to the whole gradient of a parameter before it is reduced if the program
  /// folds; nothing otherwise. Each rank has the gradients of its own lane's rows, as many times as
  /// there are ranks (core/plan/write/expert_exchange.hpp). So the gradients of what fewer ranks
  /// hold are divided by that number, and all others that ranks do not divide are averaged, in
  /// fp32, one tensor after another; most of them are equal already.
  ///
  /// Source: DeepSpeed 0.19.8's module_inject/auto_ep_folding.py, reduce_autoep_folding_gradient.
  void correct_folded(int param, Operand grad);
  /// What the gradients of fewer holders than the partition's ranks are divided by, where a sum
  /// divides by the holders alone: an average is over all ranks, whose samples they all are from.
  double divisor_of(Holders holders) const;
  /// The divisors under gradient_predivide_factor and prescale_gradients.
  Divisors predivided() const;
  /// Which divisions of `buffer` the copies into it and out of it carry out, and which its
  /// reduction, which sends the buffer itself or a copy of it as `sent`.
  struct Divided {
    Divisors copies, reduction;
  };
  Divided divided_by_copies(int buffer, Divisors divisors, Dtype sent) const;

  /// Runs `send(wire)` with `data` converted to the type `sent`, and converts back, divided by
  /// `after`.
  template<class Send>
  void in_type(Dtype sent, Operand data, Send send, double after = 1);

 private:
  void declare_scratch();
  Reduction gradient_reduction() const {
    return c_.ordered() && c_.averages() ? Reduction::average : Reduction::sum;
  }

  StagedCollectives staged_;
  int wires_ = 0;                            // numbers the converted buffers
  std::vector<int> folded_ = c_.no_slots();  // by parameter, see correct_folded
};

template<class Send>
void Collectives::in_type(Dtype sent, Operand data, Send send, double after) {
  if (w_[data.slot].dtype == sent) {
    send(data);
    return divide(data, after);
  }
  const int wire = w_.slot("wire." + std::to_string(wires_++), Category::bucket, sent, data.elems);
  w_.acquire(wire);
  w_.convert(w_.write(wire), w_.read(data));
  send(w_.update(wire));
  w_.convert(w_.write(data), w_.read(wire), after);
  w_.release(wire);
}

}  // namespace shardmark
