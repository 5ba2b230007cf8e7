// SPDX-License-Identifier: Apache-2.0
#include <core/plan/deepspeed/stage12/stage12_gradients.hpp>

namespace shardmark {

FlatGradients::FlatGradients(Program& program, const Deck& deck, const Profile& profile,
                             const FlatGroups& groups)
    : FlatStates(program, deck, profile, groups),
      part32_(groups.groups().size(), no_slot),
      part_offset_(program.model.params.size(), -1),
      accum_(program.model.params.size(), no_slot) {
  for (int id = 0; id < static_cast<int>(p_.model.params.size()); ++id)
    if (owns(id)) part_elems_ += elems(id);
}

// Allocated at the first gradient, whether they are used in this micro-batch or not.
void FlatGradients::acquire_buckets() {
  if (!contiguous()) return;
  for (int b = 0; b < (knobs_.overlap_comm ? 2 : 1); ++b) {
    const int slot = lazily(buckets_[b], "bucket." + std::to_string(b), Category::bucket,
                            precision_.model, knobs_.reduce_bucket_size);
    if (!w_.alive(slot)) w_.acquire(slot);
  }
}

// A gradient type of its own at stage 1: each micro-batch's gradient is added to a full copy.
void FlatGradients::accumulate_locally(int id) {
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

void FlatGradients::add_to_bucket(int id) {
  if (stage() == 1 && separate_accum()) {  // back to the model's type
    w_.acquire(grad_slot(id));
    w_.compute(Kernel::convert, {w_.write(grad_slot(id)), w_.read(accum_[id])});
    w_.release(accum_[id]);
  }
  if (held_ + elems(id) > knobs_.reduce_bucket_size) {
    flush();
    if (contiguous() && knobs_.overlap_comm) current_ ^= 1;
  }
  const bool copied = contiguous() && elems(id) <= knobs_.reduce_bucket_size;
  if (copied) {
    convert(write_part(buckets_[current_], held_, elems(id)), w_.read(grad_slot(id)),
            bucket_divisors().copies.before);
    w_.release(grad_slot(id));
  }
  in_bucket_.push_back({id, held_});
  held_ += elems(id);
}

void FlatGradients::flush() {
  if (in_bucket_.empty()) return;
  const bool alone =
      in_bucket_.size() == 1 && elems(in_bucket_[0].param) > knobs_.reduce_bucket_size;
  Sent sent;
  sent.entries = std::move(in_bucket_);
  in_bucket_.clear();
  if (knobs_.overlap_comm) retire();  // at most one bucket is in flight
  if (!contiguous()) {
    reduce_flattened(sent);
  } else {
    sent.slot = alone ? grad_slot(sent.entries[0].param) : buckets_[current_];
    reduce(sent);
  }
  held_ = 0;
  in_flight_ = std::move(sent);
  if (!knobs_.overlap_comm) retire();
}

// How a bucket's elements are divided before they are summed: by the copies that fill it, as far as
// these leave what travels.
DeepSpeedWriter::Divided FlatGradients::bucket_divisors() const {
  if (!averages() || ordered()) return {};
  if (knobs_.reduce_scatter) return {{static_cast<double>(world()), 1}, {}};
  Divided divided = beside_copies(buckets_[current_], predivided());
  divided.reduction.after = predivided().after;  // what is copied out is not all of it
  divided.copies.after = 1;
  return divided;
}

void FlatGradients::reduce(Sent& sent) {
  const Operand all = update_part(sent.slot, 0, held_);
  std::vector<int> params;
  for (const BucketEntry& e : sent.entries) params.push_back(e.param);
  const bool copied = sent.slot == buckets_[current_];
  if (!knobs_.reduce_scatter)
    return all_reduce(all, copied ? bucket_divisors().reduction : predivided(), params);
  if (!copied && averages() && !ordered()) divide(all, world());
  for (const BucketMessage& message :
       messages_of(sent.entries, flat_, p_.model, !knobs_.use_multi_rank_bucket_allreduce,
                   knobs_.reduce_bucket_size))
    send(sent, message);
}

// Several slices are flattened by a copy first.
void FlatGradients::send(Sent& sent, const BucketMessage& message) {
  Operand data = update_part(sent.slot, message.slices[0].at, message.elems());
  if (message.slices.size() > 1) {
    const int flat = w_.slot("flat." + std::to_string(flats_++), Category::bucket, precision_.model,
                             message.elems());
    w_.acquire(flat);
    Sent::Flattened flattened{flat, {}};
    std::int64_t at = 0;
    for (const BucketSlice& run : joined(message.slices)) {
      w_.compute(Kernel::convert,
                 {write_part(flat, at, run.elems), read_part(sent.slot, run.at, run.elems)});
      at += run.elems;
    }
    flattened.back = message.slices;
    sent.flattened.push_back(std::move(flattened));
    data = w_.update(flat);
  }
  if (message.root < 0)
    all_reduce(data, {}, message.completes);
  else
    reduce_to(data, message.root, message.completes);
}

// Without contiguous_gradients: one copy of the bucket's tensors, one all_reduce, copied back.
void FlatGradients::reduce_flattened(Sent& sent) {
  std::vector<int> params;
  for (const BucketEntry& e : sent.entries) params.push_back(e.param);
  const Divisors divisors{averages() ? static_cast<double>(world()) : 1, 1};
  if (params.size() == 1) return all_reduce(w_.update(grad_slot(params[0])), divisors, params);
  const int flat =
      w_.slot("flat." + std::to_string(flats_++), Category::bucket, precision_.model, held_);
  w_.acquire(flat);
  const Divided divided = beside_copies(flat, divisors);
  for (const BucketEntry& e : sent.entries)
    convert(write_part(flat, e.at, elems(e.param)), w_.read(grad_slot(e.param)),
            divided.copies.before);
  all_reduce(w_.update(flat), divided.reduction, params);
  sent.flattened.push_back({flat, {}});
}

// Copies back what was flattened, keeps the gradients that touch this rank's partition, drops the
// others.
void FlatGradients::retire() {
  if (!in_flight_) return;
  const Sent sent = std::move(*in_flight_);
  in_flight_.reset();
  settle_copies();
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
  if (!knobs_.overlap_comm) settle_copies();
}

// Whole gradients of every parameter that touches the partition, in the order of their arrival.
void FlatGradients::keep(int id, Operand grad) {
  if (offloads()) return keep_on_host(id, grad);
  const bool again = stage() == 2 && (!first_ || separate_accum());
  int& slot = again ? new_part_ : part_;
  lazily(slot, again ? "partition_gradients.new" : "partition_gradients", Category::grad,
         precision_.model, part_elems_, recorded::partition_gradients);
  if (!w_.alive(slot)) w_.acquire(slot);
  place(id);
  w_.compute(Kernel::convert, {write_part(slot, part_offset_[id], elems(id)), grad});
}

void FlatGradients::place(int id) {
  if (part_offset_[id] >= 0) return;
  part_offset_[id] = part_end_;
  part_end_ += elems(id);
}

void FlatGradients::epilogue() {
  flush();
  retire();
  settle_copies();
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
void FlatGradients::accumulate_partition() {
  for (std::size_t g = 0; g < groups().size(); ++g) {
    int& sum = part32_[g];
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

bool FlatGradients::exact_partition(std::size_t g) const {
  return part32_[g] != no_slot && w_.alive(part32_[g]);
}

// This rank's gradients of a group: slices of whole tensors, or the exact partition.
std::vector<Operand> FlatGradients::owned_grads(std::size_t g) const {
  if (exact_partition(g)) return {w_.read(part32_[g])};
  std::vector<Operand> slices;
  for (const FlatParam& f : groups()[g].layout)
    if (const OwnedSlice own = flat_.owned(f.param, p_.rank); own.elems > 0)
      slices.push_back(read_part(part_, part_offset_[f.param] + own.first, own.elems));
  return slices;
}

}  // namespace shardmark
