// SPDX-License-Identifier: Apache-2.0
#include <core/plan/deepspeed/stage12/stage12_gradients.hpp>
#include <core/plan/write/state_writer.hpp>

namespace shardmark {

FlatBuckets::FlatBuckets(DeepSpeedContext& context, Collectives& collectives, ModelGradients& grads,
                         StepScalars& scalars, FlatStates& states)
    : c_(context),
      p_(context.program),
      w_(context.writer),
      collectives_(collectives),
      grads_(grads),
      scalars_(scalars),
      states_(states),
      offload_(context),
      part32_(states.groups().size(), no_slot),
      part_offset_(p_.model.params.size(), -1),
      accum_(p_.model.params.size(), no_slot) {
  for (int id = 0; id < c_.params(); ++id)
    if (states_.owns(id)) part_elems_ += c_.elems(id);
}

void FlatBuckets::acquire() {
  if (!contiguous()) return;
  for (int b = 0; b < (c_.knobs.overlap_comm ? 2 : 1); ++b) {
    const int slot = c_.declare_once(buckets_[b], "bucket." + std::to_string(b), Category::bucket,
                                     c_.precision.model, c_.knobs.reduce_bucket_size);
    if (!w_.alive(slot)) w_.acquire(slot);
  }
}

void FlatBuckets::accumulate_locally(int id) {
  const int sum = c_.declare_once(accum_[id], "grad_accum." + c_.name(id), Category::grad,
                                  c_.precision.grad_accum, c_.elems(id), recorded::grads);
  if (w_.alive(sum)) {
    w_.compute(Kernel::accumulate, {w_.update(sum), w_.read(grads_.slot(id))});
  } else {
    w_.acquire(sum);
    w_.compute(Kernel::convert, {w_.write(sum), w_.read(grads_.slot(id))});
  }
  w_.release(grads_.slot(id));
}

void FlatBuckets::add(int id) {
  if (c_.stage() == 1 && separate_accum()) {  // back to the model's type
    w_.acquire(grads_.slot(id));
    w_.compute(Kernel::convert, {w_.write(grads_.slot(id)), w_.read(accum_[id])});
    w_.release(accum_[id]);
  }
  if (held_ + c_.elems(id) > c_.knobs.reduce_bucket_size) {
    send_bucket();
    if (contiguous() && c_.knobs.overlap_comm) current_ ^= 1;
  }
  const bool copied = contiguous() && c_.elems(id) <= c_.knobs.reduce_bucket_size;
  if (copied) {
    c_.convert(c_.write_part(buckets_[current_], held_, c_.elems(id)), w_.read(grads_.slot(id)),
               bucket_divisors().copies.before);
    w_.release(grads_.slot(id));
  }
  in_bucket_.push_back({id, held_});
  held_ += c_.elems(id);
}

void FlatBuckets::send_bucket() {
  if (in_bucket_.empty()) return;
  const bool alone =
      in_bucket_.size() == 1 && c_.elems(in_bucket_[0].param) > c_.knobs.reduce_bucket_size;
  Sent sent;
  sent.entries = std::move(in_bucket_);
  in_bucket_.clear();
  if (c_.knobs.overlap_comm) receive();  // at most one bucket is in flight
  if (!contiguous()) {
    reduce_flattened(sent);
  } else {
    sent.slot = alone ? grads_.slot(sent.entries[0].param) : buckets_[current_];
    reduce(sent);
  }
  held_ = 0;
  in_flight_ = std::move(sent);
  if (!c_.knobs.overlap_comm) receive();
}

// How a bucket's elements are divided before they are summed. The copies that fill the bucket
// divide if the bucket itself is sent.
Collectives::Divided FlatBuckets::bucket_divisors() const {
  if (!c_.averages() || c_.ordered()) return {};
  if (c_.knobs.reduce_scatter) return {{static_cast<double>(c_.world()), 1}, {}};
  Collectives::Divided divided =
      collectives_.divided_by_copies(buckets_[current_], collectives_.predivided());
  divided.reduction.after = collectives_.predivided().after;  // only a part is copied out
  divided.copies.after = 1;
  return divided;
}

void FlatBuckets::reduce(Sent& sent) {
  const Operand all = c_.update_part(sent.slot, 0, held_);
  std::vector<int> params;
  for (const BucketEntry& e : sent.entries) params.push_back(e.param);
  const bool copied = sent.slot == buckets_[current_];
  if (!c_.knobs.reduce_scatter)
    return collectives_.all_reduce(
        all, copied ? bucket_divisors().reduction : collectives_.predivided(), params);
  if (!copied && c_.averages() && !c_.ordered()) collectives_.divide(all, c_.world());
  for (const BucketMessage& message :
       messages_of(sent.entries, states_.flat(), p_.model,
                   !c_.knobs.use_multi_rank_bucket_allreduce, c_.knobs.reduce_bucket_size))
    send(sent, message);
}

// Several slices are first flattened by a copy.
void FlatBuckets::send(Sent& sent, const BucketMessage& message) {
  Operand data = c_.update_part(sent.slot, message.slices[0].at, message.elems());
  if (message.slices.size() > 1) {
    const int flat = w_.slot("flat." + std::to_string(flats_++), Category::bucket,
                             c_.precision.model, message.elems());
    w_.acquire(flat);
    Sent::Flattened flattened{flat, {}};
    std::int64_t at = 0;
    for (const BucketSlice& run : joined(message.slices)) {
      w_.compute(Kernel::convert,
                 {c_.write_part(flat, at, run.elems), c_.read_part(sent.slot, run.at, run.elems)});
      at += run.elems;
    }
    flattened.back = message.slices;
    sent.flattened.push_back(std::move(flattened));
    data = w_.update(flat);
  }
  if (message.root < 0)
    collectives_.all_reduce(data, {}, message.completes);
  else
    collectives_.reduce_to(data, message.root, message.completes);
}

// Without contiguous_gradients the tensors of a bucket are copied together, all-reduced once, and
// copied back.
void FlatBuckets::reduce_flattened(Sent& sent) {
  std::vector<int> params;
  for (const BucketEntry& e : sent.entries) params.push_back(e.param);
  const Divisors divisors{c_.averages() ? static_cast<double>(c_.world()) : 1, 1};
  if (params.size() == 1)
    return collectives_.all_reduce(w_.update(grads_.slot(params[0])), divisors, params);
  const int flat =
      w_.slot("flat." + std::to_string(flats_++), Category::bucket, c_.precision.model, held_);
  w_.acquire(flat);
  const Collectives::Divided divided = collectives_.divided_by_copies(flat, divisors);
  for (const BucketEntry& e : sent.entries)
    c_.convert(c_.write_part(flat, e.at, c_.elems(e.param)), w_.read(grads_.slot(e.param)),
               divided.copies.before);
  collectives_.all_reduce(w_.update(flat), divided.reduction, params);
  sent.flattened.push_back({flat, {}});
}

// Copies back what was flattened, keeps the gradients that touch this rank's partition, and drops
// the others.
void FlatBuckets::receive() {
  if (!in_flight_) return;
  const Sent sent = std::move(*in_flight_);
  in_flight_.reset();
  offload_.release_copied();
  for (const Sent::Flattened& f : sent.flattened) copy_back(sent, f);
  for (const BucketEntry& e : sent.entries) {
    const int grad = grads_.slot(e.param);
    if (states_.owns(e.param))
      keep(e.param,
           w_.alive(grad) ? w_.read(grad) : c_.read_part(sent.slot, e.at, c_.elems(e.param)));
    if (w_.alive(grad)) w_.release(grad);
  }
  if (!c_.knobs.overlap_comm) offload_.release_copied();
}

void FlatBuckets::copy_back(const Sent& sent, const Sent::Flattened& flattened) {
  if (sent.slot == no_slot) {
    for (const BucketEntry& e : sent.entries)
      c_.convert(w_.write(grads_.slot(e.param)),
                 c_.read_part(flattened.slot, e.at, c_.elems(e.param)));
  } else {
    std::int64_t at = 0;
    for (const BucketSlice& s : flattened.back) {
      if (s.owner == p_.rank)
        c_.convert(c_.write_part(sent.slot, s.at, s.elems),
                   c_.read_part(flattened.slot, at, s.elems));
      at += s.elems;
    }
  }
  w_.release(flattened.slot);
}

// Keeps whole gradients of every parameter that touches the partition, in the order of arrival.
void FlatBuckets::keep(int id, Operand grad) {
  if (c_.offloads()) return keep_on_host(id, grad);
  const bool again = c_.stage() == 2 && (!micro_.first || separate_accum());
  int& slot = again ? new_part_ : part_;
  c_.declare_once(slot, again ? "partition_gradients.new" : "partition_gradients", Category::grad,
                  c_.precision.model, part_elems_, recorded::partition_gradients);
  if (!w_.alive(slot)) w_.acquire(slot);
  place(id);
  w_.compute(Kernel::convert, {c_.write_part(slot, part_offset_[id], c_.elems(id)), grad});
}

void FlatBuckets::place(int id) {
  if (part_offset_[id] >= 0) return;
  part_offset_[id] = part_end_;
  part_end_ += c_.elems(id);
}

void FlatBuckets::finish() {
  send_bucket();
  receive();
  offload_.release_copied();
  for (int b : buckets_)
    if (b != no_slot && w_.alive(b)) w_.release(b);
  if (new_part_ == no_slot || !w_.alive(new_part_)) return;
  if (separate_accum())
    accumulate_partition();
  else
    w_.compute(Kernel::accumulate, {w_.update(part_), w_.read(new_part_)});
  w_.release(new_part_);
}

// Adds the owned slices to the exact partition, in the accumulation's type.
void FlatBuckets::accumulate_partition() {
  for (std::size_t g = 0; g < states_.groups().size(); ++g) {
    int& sum = part32_[g];
    c_.declare_once(sum, "partition_gradients" + states_.suffix(g), Category::grad,
                    c_.precision.grad_accum, states_.groups()[g].partition,
                    recorded::partition_gradients);
    const bool begins = !w_.alive(sum);
    if (begins) acquire_zeroed(w_, sum);
    for (const FlatParam& f : states_.groups()[g].layout) {
      const OwnedSlice own = states_.owned(f.param);
      if (own.elems == 0) continue;
      const std::int64_t at = f.offset + own.first - states_.own_first(g);
      const Operand from = c_.read_part(new_part_, part_offset_[f.param] + own.first, own.elems);
      if (begins)
        w_.compute(Kernel::convert, {c_.write_part(sum, at, own.elems), from});
      else
        w_.compute(Kernel::accumulate, {c_.update_part(sum, at, own.elems), from});
    }
  }
}

int FlatBuckets::exact_partition(std::size_t g) const {
  return part32_[g] != no_slot && w_.alive(part32_[g]) ? part32_[g] : no_slot;
}

void FlatBuckets::flatten_owned(std::size_t g, int into) {
  const FlatGroup& group = states_.groups()[g];
  std::int64_t covered = 0;
  for (const FlatParam& f : group.layout) covered += states_.owned(f.param).elems;
  if (covered < group.partition) w_.compute(Kernel::zero, {w_.write(into)});
  for (const FlatParam& f : group.layout)
    if (const OwnedSlice own = states_.owned(f.param); own.elems > 0)
      w_.compute(Kernel::convert,
                 {c_.write_part(into, f.offset + own.first - states_.own_first(g), own.elems),
                  c_.read_part(part_, part_offset_[f.param] + own.first, own.elems)});
}

void FlatBuckets::release_owned() {
  if (part_ != no_slot && w_.alive(part_)) w_.release(part_);
  for (int part : part32_)
    if (part != no_slot && w_.alive(part)) w_.release(part);
}

std::vector<Operand> FlatBuckets::owned_grads(std::size_t g) const {
  if (const int exact = exact_partition(g); exact != no_slot) return {w_.read(exact)};
  std::vector<Operand> slices;
  for (const FlatParam& f : states_.groups()[g].layout)
    if (const OwnedSlice own = states_.owned(f.param); own.elems > 0)
      slices.push_back(c_.read_part(part_, part_offset_[f.param] + own.first, own.elems));
  return slices;
}

}  // namespace shardmark
