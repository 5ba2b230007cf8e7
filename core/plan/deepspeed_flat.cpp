// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's stages 1 and 2: parameter groups as flat buffers, gradients through buckets. By
// default a bucket is all-reduced and each rank keeps what it owns; there is no reduce-scatter.
// Stage 1 reduces after the last backward of a step, stage 2 in every one.
//
// Source: DeepSpeed 0.19's runtime/zero/stage_1_and_2.py, and recordings of 0.19.8.
#include <optional>

#include <core/plan/checked.hpp>
#include <core/plan/deepspeed_writer.hpp>
#include <core/plan/grad_bucket.hpp>

namespace shardmark {
namespace {

class FlatWriter : public DeepSpeedWriter {
 public:
  FlatWriter(Program& program, const Deck& deck, const Profile& profile, const FlatGroups& groups)
      : DeepSpeedWriter(program, deck, profile),
        flat_(groups),
        states_(groups.groups().size()),
        accum_(program.model.params.size(), no_slot),
        part_offset_(program.model.params.size(), -1) {
    for (int id = 0; id < static_cast<int>(p_.model.params.size()); ++id)
      if (flat_.owned(id, p_.rank).elems > 0) part_elems_ += elems(id);
  }

  void write() {
    init();
    Step step;
    const auto last = static_cast<int>(p_.batch.accumulation) - 1;
    step.micros.push_back(micro(last == 0 ? "micro_only" : "micro_first", 0));
    if (last > 1) step.micros.resize(last, micro("micro_middle", 1));
    if (last > 0) step.micros.push_back(micro("micro_last", last));
    step.boundary = boundary();
    const EndState closed = p_.segments[step.boundary].exit;
    step.update = update();
    if (precision_.check_overflow) {
      w_.resume(closed);
      step.skip = skip();
    }
    p_.steps.push_back(std::move(step));
  }

 private:
  struct GroupSlots {
    int param = no_slot, master = no_slot, momentum = no_slot, variance = no_slot;
    int part32 = no_slot;  // owned gradients in a type of their own, the partition exactly
    int grad = no_slot, grad32 = no_slot;  // of the step
  };

  int stage() const { return p_.stage; }
  const std::vector<FlatGroup>& groups() const { return flat_.groups(); }
  bool separate_accum() const { return precision_.grad_accum != precision_.model; }
  bool owns(int id) const { return flat_.owned(id, p_.rank).elems > 0; }
  std::string suffix(std::size_t g) const {
    return groups().size() > 1 ? "." + std::to_string(g) : "";
  }
  std::int64_t own_first(std::size_t g) const { return groups()[g].partition * p_.rank; }

  Operand tensor(int id) const {
    return read_part(states_[flat_.group_of(id)].param, flat_.offset_of(id), elems(id));
  }
  std::vector<Operand> module_params(int module) const {
    std::vector<Operand> operands;
    for (int id : p_.model.params_of(module)) operands.push_back(tensor(id));
    return operands;
  }

  void init() {
    w_.begin(SegmentKind::init, "init", Gradients::none);
    w_.phase(Phase::init);
    p_.sharded = {false, true, true, true};
    for (std::size_t g = 0; g < groups().size(); ++g) {
      const FlatGroup& group = groups()[g];
      GroupSlots& s = states_[g];
      s.param = w_.slot("param" + suffix(g), Category::param, precision_.model, group.padded,
                        Tier::device, recorded::params);
      s.master = w_.slot("master" + suffix(g), Category::master, Dtype::fp32, group.partition);
      s.momentum =
          w_.slot("momentum" + suffix(g), Category::momentum, Dtype::fp32, group.partition);
      s.variance =
          w_.slot("variance" + suffix(g), Category::variance, Dtype::fp32, group.partition);
      place_state(p_, State::param, s.param, 0, group.layout, 0, group.padded);
      for (auto [state, slot] :
           {std::pair{State::master, s.master}, std::pair{State::momentum, s.momentum},
            std::pair{State::variance, s.variance}})
        place_state(p_, state, slot, 0, group.layout, own_first(g), group.partition);
      w_.acquire(s.param);
      init_params(w_, p_, s.param);
    }
    for (int id = 0; id < static_cast<int>(p_.model.params.size()); ++id)
      broadcast_bytes(tensor(id), id);
    for (std::size_t g = 0; g < groups().size(); ++g) {
      const GroupSlots& s = states_[g];
      w_.acquire(s.master);
      w_.compute(Kernel::convert,
                 {w_.write(s.master), read_part(s.param, own_first(g), groups()[g].partition)});
      acquire_zeroed(w_, s.momentum);
      acquire_zeroed(w_, s.variance);
    }
    acquire_shared();
    end(Gradients::none);
  }

  int micro(const char* name, int g) {
    first_ = g == 0;
    last_ = g == p_.batch.accumulation - 1;
    const Gradients pending = stage() == 2 ? Gradients::reduced : Gradients::accumulated;
    const int index = w_.begin(SegmentKind::micro, name, first_ ? Gradients::none : pending);
    w_.phase(Phase::forward, g);
    compute_.begin_micro(g);
    for (int m : p_.model.computing(VisitKind::pre_forward)) compute_.forward(m, module_params(m));
    w_.phase(Phase::backward, g);
    begin_backward();
    const bool reduces = stage() == 2 || last_;
    const bool as_ready = reduces && (stage() == 2 || knobs_.overlap_comm);
    for (int m : p_.model.computing(VisitKind::pre_backward)) {
      acquire_buckets();
      backward(m, module_params(m), stage() == 1 && !first_ && !separate_accum());
      for (int id : ready_after(m)) {
        if (stage() == 1 && separate_accum()) accumulate_locally(id);
        if (as_ready) add_to_bucket(id);
      }
    }
    compute_.end_micro();
    if (reduces && !as_ready)  // in the optimizer's order
      for (const FlatGroup& group : groups())
        for (int id : group.params) add_to_bucket(id);
    if (reduces) epilogue();
    end(last_ ? Gradients::reduced : pending);
    return index;
  }

  // Allocated at the first gradient, whether they are used in this micro-batch or not.
  void acquire_buckets() {
    if (!knobs_.contiguous_gradients) return;
    for (int b = 0; b < (knobs_.overlap_comm ? 2 : 1); ++b) {
      const int slot = lazily(buckets_[b], "bucket." + std::to_string(b), Category::bucket,
                              precision_.model, knobs_.reduce_bucket_size);
      if (!w_.alive(slot)) w_.acquire(slot);
    }
  }

  // A gradient type of its own at stage 1: each micro-batch's gradient is added to a full copy.
  void accumulate_locally(int id) {
    const int sum = lazily(accum_[id], "grad_accum." + name(id), Category::grad,
                           precision_.grad_accum, elems(id), recorded::grads);
    if (w_.alive(sum)) {
      w_.compute(Kernel::accumulate, {w_.update(sum), w_.read(grad_slot(id))});
    } else {
      w_.acquire(sum);
      w_.compute(Kernel::convert, {w_.write(sum), w_.read(grad_slot(id))});
    }
    w_.release(grad_slot(id));
  }

  void add_to_bucket(int id) {
    if (stage() == 1 && separate_accum()) {  // back to the model's type
      w_.acquire(grad_slot(id));
      w_.compute(Kernel::convert, {w_.write(grad_slot(id)), w_.read(accum_[id])});
      w_.release(accum_[id]);
    }
    if (held_ + elems(id) > knobs_.reduce_bucket_size) {
      flush();
      if (knobs_.contiguous_gradients && knobs_.overlap_comm) current_ ^= 1;
    }
    const bool copied = knobs_.contiguous_gradients && elems(id) <= knobs_.reduce_bucket_size;
    if (copied) {
      w_.compute(Kernel::convert,
                 {write_part(buckets_[current_], held_, elems(id)), w_.read(grad_slot(id))});
      w_.release(grad_slot(id));
    }
    in_bucket_.push_back({id, held_});
    held_ += elems(id);
  }

  // A bucket whose messages have been sent: what is to be done once they have arrived.
  struct Sent {
    std::vector<BucketEntry> entries;
    int slot = no_slot;  // where the entries lie; no_slot: each in its own gradient
    struct Flattened {
      int slot;
      std::vector<BucketSlice> back;  // slices that this rank copies back
    };
    std::vector<Flattened> flattened;
  };

  void flush() {
    if (in_bucket_.empty()) return;
    const bool alone =
        in_bucket_.size() == 1 && elems(in_bucket_[0].param) > knobs_.reduce_bucket_size;
    Sent sent;
    sent.entries = std::move(in_bucket_);
    in_bucket_.clear();
    if (knobs_.overlap_comm) retire();  // at most one bucket is in flight
    if (!knobs_.contiguous_gradients) {
      reduce_flattened(sent);
    } else {
      sent.slot = alone ? grad_slot(sent.entries[0].param) : buckets_[current_];
      reduce(sent);
    }
    held_ = 0;
    in_flight_ = std::move(sent);
    if (!knobs_.overlap_comm) retire();
  }

  void reduce(Sent& sent) {
    const Operand all = update_part(sent.slot, 0, held_);
    std::vector<int> params;
    for (const BucketEntry& e : sent.entries) params.push_back(e.param);
    if (!knobs_.reduce_scatter) return all_reduce(all, predivided(), params);
    if (averages() && !ordered()) divide(all, world());
    for (const BucketMessage& message :
         messages_of(sent.entries, flat_, p_.model, !knobs_.use_multi_rank_bucket_allreduce,
                     knobs_.reduce_bucket_size))
      send(sent, message);
  }

  // Several slices are flattened by a copy first.
  void send(Sent& sent, const BucketMessage& message) {
    Operand data = update_part(sent.slot, message.slices[0].at, message.elems());
    if (message.slices.size() > 1) {
      const int flat = w_.slot("flat." + std::to_string(flats_++), Category::bucket,
                               precision_.model, message.elems());
      w_.acquire(flat);
      Sent::Flattened flattened{flat, {}};
      std::int64_t at = 0;
      for (const BucketSlice& s : message.slices) {
        w_.compute(Kernel::convert,
                   {write_part(flat, at, s.elems), read_part(sent.slot, s.at, s.elems)});
        flattened.back.push_back({s.owner, s.at, s.elems});
        at += s.elems;
      }
      sent.flattened.push_back(std::move(flattened));
      data = w_.update(flat);
    }
    if (message.root < 0)
      all_reduce(data, {}, message.completes);
    else
      reduce_to(data, message.root, message.completes);
  }

  // Without contiguous_gradients: one copy of the bucket's tensors, one all_reduce, copied back.
  void reduce_flattened(Sent& sent) {
    std::vector<int> params;
    for (const BucketEntry& e : sent.entries) params.push_back(e.param);
    const Divisors divisors{averages() ? static_cast<double>(world()) : 1, 1};
    if (params.size() == 1) return all_reduce(w_.update(grad_slot(params[0])), divisors, params);
    const int flat =
        w_.slot("flat." + std::to_string(flats_++), Category::bucket, precision_.model, held_);
    w_.acquire(flat);
    for (const BucketEntry& e : sent.entries)
      w_.compute(Kernel::convert,
                 {write_part(flat, e.at, elems(e.param)), w_.read(grad_slot(e.param))});
    all_reduce(w_.update(flat), divisors, params);
    sent.flattened.push_back({flat, {}});
  }

  // Copies back what was flattened, keeps the gradients that touch this rank's partition, drops the
  // others.
  void retire() {
    if (!in_flight_) return;
    const Sent sent = std::move(*in_flight_);
    in_flight_.reset();
    for (const Sent::Flattened& f : sent.flattened) {
      if (sent.slot == no_slot) {
        for (const BucketEntry& e : sent.entries)
          w_.compute(Kernel::convert,
                     {w_.write(grad_slot(e.param)), read_part(f.slot, e.at, elems(e.param))});
      } else {
        std::int64_t at = 0;
        for (const BucketSlice& s : f.back) {
          if (s.owner == p_.rank)
            w_.compute(Kernel::convert,
                       {write_part(sent.slot, s.at, s.elems), read_part(f.slot, at, s.elems)});
          at += s.elems;
        }
      }
      w_.release(f.slot);
    }
    for (const BucketEntry& e : sent.entries) {
      const int grad = grad_slot(e.param);
      if (owns(e.param))
        keep(e.param, w_.alive(grad) ? w_.read(grad) : read_part(sent.slot, e.at, elems(e.param)));
      if (w_.alive(grad)) w_.release(grad);
    }
  }

  // Whole gradients of every parameter that touches the partition, in the order of their arrival.
  void keep(int id, Operand grad) {
    const bool again = stage() == 2 && (!first_ || separate_accum());
    int& slot = again ? new_part_ : part_;
    lazily(slot, again ? "partition_gradients.new" : "partition_gradients", Category::grad,
           precision_.model, part_elems_, recorded::partition_gradients);
    if (!w_.alive(slot)) w_.acquire(slot);
    if (part_offset_[id] < 0) {
      part_offset_[id] = part_end_;
      part_end_ += elems(id);
    }
    w_.compute(Kernel::convert, {write_part(slot, part_offset_[id], elems(id)), grad});
  }

  void epilogue() {
    flush();
    retire();
    for (int b : buckets_)
      if (b != no_slot && w_.alive(b)) w_.release(b);
    if (new_part_ == no_slot || !w_.alive(new_part_)) return;
    if (separate_accum())
      accumulate_partition();
    else
      w_.compute(Kernel::accumulate, {w_.update(part_), w_.read(new_part_)});
    w_.release(new_part_);
  }

  // Owned slices into the exact partition, in the accumulation's type.
  void accumulate_partition() {
    for (std::size_t g = 0; g < groups().size(); ++g) {
      int& sum = states_[g].part32;
      lazily(sum, "partition_gradients" + suffix(g), Category::grad, precision_.grad_accum,
             groups()[g].partition, recorded::partition_gradients);
      const bool begins = !w_.alive(sum);
      if (begins) acquire_zeroed(w_, sum);
      for (const FlatParam& f : groups()[g].layout) {
        const OwnedSlice own = flat_.owned(f.param, p_.rank);
        if (own.elems == 0) continue;
        const std::int64_t at = f.offset + own.first - own_first(g);
        const Operand from = read_part(new_part_, part_offset_[f.param] + own.first, own.elems);
        if (begins)
          w_.compute(Kernel::convert, {write_part(sum, at, own.elems), from});
        else
          w_.compute(Kernel::accumulate, {update_part(sum, at, own.elems), from});
      }
    }
  }

  bool exact_partition(std::size_t g) const {
    return states_[g].part32 != no_slot && w_.alive(states_[g].part32);
  }

  // This rank's gradients of a group: slices of whole tensors, or the exact partition.
  std::vector<Operand> owned_grads(std::size_t g) const {
    if (exact_partition(g)) return {w_.read(states_[g].part32)};
    std::vector<Operand> slices;
    for (const FlatParam& f : groups()[g].layout)
      if (const OwnedSlice own = flat_.owned(f.param, p_.rank); own.elems > 0)
        slices.push_back(read_part(part_, part_offset_[f.param] + own.first, own.elems));
    return slices;
  }

  int boundary() {
    const int index = w_.begin(SegmentKind::boundary, "boundary", Gradients::reduced);
    w_.phase(Phase::step);
    if (precision_.check_overflow) {
      std::vector<Operand> grads;
      for (std::size_t g = 0; g < groups().size(); ++g)
        for (const Operand& o : owned_grads(g)) grads.push_back(o);
      overflow_flag(grads, true);
    }
    end(Gradients::reduced);
    return index;
  }

  int update() {
    const int index = w_.begin(SegmentKind::update, "update", Gradients::reduced);
    w_.phase(Phase::step);
    const int sums = knobs_.compute_grad_norm ? static_cast<int>(groups().size()) : 0;
    acquire_step_scalars(sums);
    for (int g = 0; g < sums; ++g) {
      sum_of_squares(g, owned_grads(g));
      reduce_sum(g, Dtype::fp32, false);
    }
    clip(sums);
    for (std::size_t g = 0; g < groups().size(); ++g) update_group(g);
    release_gradients();
    if (world() > 1)
      for (std::size_t g = 0; g < groups().size(); ++g) {
        const int param = states_[g].param;
        collective(Op::all_gather, Reduction::none,
                   read_part(param, own_first(g), groups()[g].partition), w_.write(param),
                   groups()[g].params);
      }
    release_step_scalars();
    end(Gradients::none);
    return index;
  }

  // One flat copy of the partition's gradients, in fp32, for Adam on the fp32 partition.
  void update_group(std::size_t g) {
    const FlatGroup& group = groups()[g];
    GroupSlots& s = states_[g];
    int grad = s.part32;
    if (!exact_partition(g)) {
      grad = lazily(s.grad, "step_gradients" + suffix(g), Category::grad, precision_.model,
                    group.partition);
      w_.acquire(grad);
      flatten(g, grad);
    }
    if (w_[grad].dtype != Dtype::fp32) {
      w_.acquire(lazily(s.grad32, "step_gradients_fp32" + suffix(g), Category::grad, Dtype::fp32,
                        group.partition));
      w_.compute(Kernel::convert, {w_.write(s.grad32), w_.read(grad)});
      w_.release(grad);
      grad = s.grad32;
    }
    adamw(w_.update(s.master), w_.read(grad), w_.update(s.momentum), w_.update(s.variance),
          group.params);
    w_.release(grad);
    w_.compute(Kernel::convert,
               {write_part(s.param, own_first(g), group.partition), w_.read(s.master)});
  }

  void flatten(std::size_t g, int into) {
    const FlatGroup& group = groups()[g];
    std::int64_t covered = 0;
    for (const FlatParam& f : group.layout) covered += flat_.owned(f.param, p_.rank).elems;
    if (covered < group.partition) w_.compute(Kernel::zero, {w_.write(into)});
    for (const FlatParam& f : group.layout)
      if (const OwnedSlice own = flat_.owned(f.param, p_.rank); own.elems > 0)
        w_.compute(Kernel::convert,
                   {write_part(into, f.offset + own.first - own_first(g), own.elems),
                    read_part(part_, part_offset_[f.param] + own.first, own.elems)});
  }

  void release_gradients() {
    if (part_ != no_slot && w_.alive(part_)) w_.release(part_);
    for (const GroupSlots& s : states_)
      if (s.part32 != no_slot && w_.alive(s.part32)) w_.release(s.part32);
    if (precision_.check_overflow) w_.release(flag());
  }

  int skip() {
    const int index = w_.begin(SegmentKind::skip, "skip", Gradients::reduced);
    w_.phase(Phase::step);
    release_gradients();
    end(Gradients::none);
    return index;
  }

  const FlatGroups& flat_;
  std::vector<GroupSlots> states_;
  std::vector<int> accum_;  // by parameter, see accumulate_locally
  std::array<int, 2> buckets_{no_slot, no_slot};
  int current_ = 0;                     // bucket that is being filled
  std::vector<BucketEntry> in_bucket_;  // its gradients
  std::int64_t held_ = 0;               // its elements
  std::optional<Sent> in_flight_;
  int flats_ = 0;  // names of the flattened copies
  int part_ = no_slot, new_part_ = no_slot;
  std::vector<std::int64_t> part_offset_;  // by parameter; -1: not placed yet
  std::int64_t part_end_ = 0, part_elems_ = 0;
  bool first_ = true, last_ = true;  // of the micro-batch that is being written
};

}  // namespace

void write_deepspeed_bf16(Program&, const Deck&, const Profile&, const FlatGroups&);

void write_deepspeed_flat(Program& program, const Deck& deck, const Profile& profile) {
  const PrecisionSpec& precision = deck.zero.precision;
  const FlatGroups groups(program.model, deck.zero.knobs, dtype_bytes(precision.model),
                          program.world);
  for (const FlatGroup& g : groups.groups()) {
    program.partition.padded = checked_add(program.partition.padded, g.padded, "partition");
    program.partition.per_rank += g.partition;
  }
  // DeepSpeed has a second optimizer class for this one combination.
  if (program.stage == 1 && precision.model == Dtype::bf16 && precision.grad_accum == Dtype::fp32)
    return write_deepspeed_bf16(program, deck, profile, groups);
  FlatWriter(program, deck, profile, groups).write();
}

}  // namespace shardmark
