// SPDX-License-Identifier: Apache-2.0
// What DeepSpeed's stages have in common: gradients tensor by tensor, how a reduction is divided,
// the norm, the overflow flag, Adam on fp32 states.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include <core/plan/plan.hpp>
#include <core/plan/write/compute_writer.hpp>
#include <core/plan/write/plan_writer.hpp>
#include <core/plan/write/state_writer.hpp>

namespace shardmark {

// The names under which the recordings tell tensors of one category apart.
namespace recorded {
inline constexpr std::string_view params = "params", grads = "grads";
inline constexpr std::string_view partition_gradients = "partition_gradients";
inline constexpr std::string_view full_fp32_gradients = "full_fp32_gradients";
inline constexpr std::string_view param_partitions = "param_partitions";
inline constexpr std::string_view secondary_partitions = "secondary_partitions";
inline constexpr std::string_view grad_partitions = "grad_partitions";
}  // namespace recorded

/// The engine's own all_reduce flushes a bucket once it holds more; reduce_bucket_size plays no
/// part.
inline constexpr std::int64_t engine_bucket_elems = 500'000'000;

/// What a reduced tensor is divided by: before its sum, and after it. 1: not at all.
struct Divisors {
  double before = 1, after = 1;
};

class DeepSpeedWriter {
 public:
  DeepSpeedWriter(Program& program, const Deck& deck, const Profile& profile);
  virtual ~DeepSpeedWriter() = default;

 protected:
  int world() const { return p_.world; }
  std::int64_t elems(int param) const { return p_.model.params[param].elems; }
  const std::string& name(int param) const { return p_.model.params[param].name; }
  bool ordered() const { return p_.reductions == Reductions::ordered; }
  /// Sums over ranks are averages, unless gradients are only summed.
  bool averages() const { return !knobs_.sums_gradients; }

  Operand read_part(int slot, std::int64_t offset, std::int64_t elems) const {
    return w_.part(slot, offset, elems, true, false);
  }
  Operand write_part(int slot, std::int64_t offset, std::int64_t elems) const {
    return w_.part(slot, offset, elems, false, true);
  }
  Operand update_part(int slot, std::int64_t offset, std::int64_t elems) const {
    return w_.part(slot, offset, elems, true, true);
  }

  /// A slot declared when it is first asked for.
  int lazily(int& slot, const std::string& name, Category category, Dtype dtype, std::int64_t elems,
             std::string_view kind = {});

  /// Acquires what init leaves alive beyond the states: the loss.
  void acquire_shared();
  /// Closes the open segment; staging lives within one segment only.
  void end(Gradients gradients);
  /// A collective of the world or another group, with the staging that it needs.
  void collective(Op op, Reduction reduction, Operand send, Operand receive,
                  const std::vector<int>& params, int root = -1, int group = 0);
  /// Broadcasts a parameter from rank 0 as bytes.
  void broadcast_bytes(Operand tensor, int param);

  /// Reduces `data` over the world where it lies, in the communication's type, divided as said.
  /// `ordered` divides inside the sum instead, where the result is an average.
  void all_reduce(Operand data, Divisors divisors, const std::vector<int>& params);
  void reduce_to(Operand data, int root, const std::vector<int>& params);
  /// The divisors of what is averaged with gradient_predivide_factor or prescale_gradients.
  Divisors predivided() const;
  void divide(Operand data, double divisor);
  /// into = from / divisor, in one pass over memory.
  void convert(Operand into, Operand from, double divisor = 1);
  /// Whether a reduction sends `buffer` itself, and no converted copy of it.
  bool travels_itself(int buffer) const;
  /// Which divisions of `buffer` the copies into it and out of it do, and which its reduction.
  struct Divided {
    Divisors copies, reduction;
  };
  Divided beside_copies(int buffer, Divisors divisors) const;
  /// Runs `send(wire)` with `data` converted to the communication's type, and back, divided by
  /// `after`.
  template<class Send>
  void as_comm_type(Operand data, Send send, double after = 1);
  Reduction gradient_reduction() const {
    return ordered() && averages() ? Reduction::average : Reduction::sum;
  }

  /// The model's gradient of each parameter, one tensor each; kept between micro-batches or not.
  int grad_slot(int param);
  /// Writes one module's backward. `adds`: into what earlier micro-batches left.
  void backward(int module, const std::vector<Operand>& params, bool adds);
  /// Parameters whose gradients are ready now that `module`'s backward is done.
  std::vector<int> ready_after(int module);
  void begin_backward();

  // The optimizer step: flag, sums, clip.
  void acquire_step_scalars(int sums);
  void release_step_scalars();
  int flag() const { return flag_; }
  void overflow_flag(const std::vector<Operand>& grads, bool reduced);
  void acquire_flag();
  void reduce_flag();
  /// Sum of squares number `i` over `grads`, not yet over ranks.
  void sum_of_squares(int i, const std::vector<Operand>& grads);
  /// Adds sum number `i` up over ranks, as `wire` says; `replicated`: every rank has all of it.
  void reduce_sum(int i, Dtype wire, bool replicated);
  void clip(int sums);
  /// `rounded`: gets the new master in the model's type, in the same pass over memory.
  void adamw(Operand master, Operand grad, Operand momentum, Operand variance,
             const std::vector<int>& params, std::optional<Operand> rounded = {});

  // Optimizer states on the host (deepspeed_offload.cpp). The device looks at the reduced gradients
  // of a step's last micro-batch as they come, and sends them on in fp32.
  bool offloads() const { return p_.stage > 0 && deck_.zero.offload_optimizer.enabled; }
  int host_slot(const std::string& name, Category category, Dtype dtype, std::int64_t elems,
                bool pinned = false, std::string_view kind = {}) {
    return w_.slot(name, category, dtype, elems, Tier::host, kind, pinned);
  }
  bool pins() const { return deck_.zero.offload_optimizer.pin_memory; }
  /// Sums of squares and, where it is `flagged`, the overflow flag: alive and zero.
  void begin_looking(int sums, bool flagged);
  /// Adds a reduced gradient to sum number `sum`, if there is one, and to the flag.
  void look_at(int sum, Operand grad);
  /// A parameter's gradient in fp32 on the device: itself, or made in a buffer that is alive then,
  /// `fp32_slot`.
  Operand as_fp32(int id, Operand grad);
  int fp32_slot(int id) const { return fp32_[id]; }
  /// Sends a parameter's gradient to fp32 on the host; what it goes through lives on until
  /// `settle_copies`.
  void send_down(int id, Operand grad, Operand into);
  void in_transit(int slot) { transit_.push_back(slot); }
  /// Frees what copies went through: the compute lane waits for them.
  void settle_copies();
  /// The sums go to the host, which clips; `also_device`: for sub-groups that stayed there.
  void clip_on_host(int sums, bool also_device);

  Program& p_;
  const Deck& deck_;
  const Profile& profile_;
  const ZeroKnobs& knobs_;
  const PrecisionSpec& precision_;
  PlanWriter w_;
  ComputeWriter compute_;
  int staging_ = no_slot;

 private:
  void declare_staging();

  std::vector<int> grads_;  // by parameter
  std::vector<int> uses_;   // by parameter: modules that use it
  std::vector<int> order_;  // in which gradients become ready
  std::size_t next_ready_ = 0;
  std::vector<int> uses_left_;  // in this backward
  std::set<int> made_;          // gradients that this backward has begun
  void declare_sums(int sums);
  std::vector<int> sums_, host_sums_;
  int flag_ = no_slot, clip_ = no_slot, host_clip_ = no_slot;
  bool looks_for_overflow_ = false;
  std::vector<int> sum_wires_;
  std::vector<int> fp32_;     // by parameter: a gradient on its way to the host
  std::vector<int> transit_;  // what copies go through

  int wires_ = 0;  // names of the converted buffers
};

/// A stage whose steps are all alike.
class RepeatedStepWriter : public DeepSpeedWriter {
 public:
  using DeepSpeedWriter::DeepSpeedWriter;

 protected:
  /// One segment each; its index is returned. `name`: micro_only, or first, middle, last.
  virtual int micro(const char* name, int micro_batch) = 0;
  virtual int boundary() = 0;
  virtual int update() = 0;
  virtual int skip() { return -1; }
  /// Writes the step and lets it follow itself.
  void write_step(bool may_skip);
};

template<class Send>
void DeepSpeedWriter::as_comm_type(Operand data, Send send, double after) {
  if (travels_itself(data.slot)) {
    send(data);
    return divide(data, after);
  }
  const int wire =
      w_.slot("wire." + std::to_string(wires_++), Category::bucket, precision_.comm, data.elems);
  w_.acquire(wire);
  w_.compute(Kernel::convert, {w_.write(wire), read_part(data.slot, data.offset, data.elems)});
  send(w_.update(wire));
  convert(write_part(data.slot, data.offset, data.elems), w_.read(wire), after);
  w_.release(wire);
}

void write_deepspeed_replicated(Program&, const Deck&, const Profile&);
void write_deepspeed_flat(Program&, const Deck&, const Profile&);
void write_deepspeed_sharded(Program&, const Deck&, const Profile&);

}  // namespace shardmark
