// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <core/plan/deepspeed/stage12/stage12_gradients.hpp>
#include <core/plan/write/state_writer.hpp>

namespace shardmark {

FlatBuckets::FlatBuckets(StageContext& context, FlatStates& states)
    : StagePart(context),
      states_(states),
      offload_(context),
      part32_(states.groups().size(), no_slot),
      zeros_(states.groups().size(), no_slot),
      part_offset_(p_.model.params.size(), -1),
      replaced_(p_.model.params.size()) {
  for (std::size_t g = 0; g < states_.groups().size(); ++g) {
    const std::vector<int>& params = states_.groups()[g].params;
    const bool owns = std::ranges::any_of(params, [&](int id) { return states_.owns(id); });
    exact_.push_back(separate_accum() && !(states_.has_matrices(g) && owns));
    // A buffer has a place for the others, too, which are not put there.
    if (exact_[g] && (c_.offloads() || !contiguous())) continue;
    // Without a buffer each gradient is a tensor, and the zeros of an unused one are held apart.
    for (const int id : params)
      if (states_.owns(id) && (contiguous() || c_.param(id).trained())) part_elems_ += c_.elems(id);
  }
  for (Dtype type : c_.sent_types()) buckets_.push_back({type});
}

FlatBuckets::Bucket& FlatBuckets::bucket_of(int id) {
  return *std::ranges::find(buckets_, c_.sent_as(id), &Bucket::type);
}

void FlatBuckets::acquire() {
  if (!contiguous()) return;
  for (Bucket& bucket : buckets_) {
    const std::string type =
        buckets_.size() > 1 ? std::string(to_string(bucket.type)) + "." : std::string{};
    for (int b = 0; b < (c_.knobs.overlap_comm ? 2 : 1); ++b) {
      const int slot =
          c_.declare_once(bucket.slots[b], "bucket." + type + std::to_string(b), Category::bucket,
                          bucket_type(), c_.knobs.reduce_bucket_size);
      if (w_.alive(slot)) continue;
      w_.acquire(slot);
      bucket.current = 0;
    }
  }
}

void FlatBuckets::accumulate_locally(int id) {
  const int sum = c_.declare_once(accum_[id], "grad_accum." + c_.name(id), Category::grad,
                                  c_.precision.grad_accum, c_.elems(id), recorded::grads);
  w_.add_to(sum, w_.read(grads_.slot(id)));
  w_.release(grads_.slot(id));
}

void FlatBuckets::add(int id) {
  Bucket& bucket = bucket_of(id);
  if (bucket.held + c_.elems(id) > c_.knobs.reduce_bucket_size) {
    send_bucket(bucket);
    if (contiguous() && c_.knobs.overlap_comm) bucket.current ^= 1;
  }
  if (hooks_correct()) collectives_.correct_folded(id, w_.update(own_tensor(id)));
  const bool copied = contiguous() && c_.elems(id) <= c_.knobs.reduce_bucket_size;
  if (copied) {
    w_.convert(w_.write(bucket.slot(), bucket.held, c_.elems(id)), w_.read(own_tensor(id)),
               bucket_divisors(bucket).copies.before);
    w_.release(own_tensor(id));
  }
  bucket.entries.push_back({id, bucket.held});
  bucket.held += c_.elems(id);
}

void FlatBuckets::correct_all() {
  if (hooks_correct() || !c_.folds()) return;
  for (int id = 0; id < c_.params(); ++id)
    if (c_.param(id).trained()) collectives_.correct_folded(id, w_.update(own_tensor(id)));
}

void FlatBuckets::send_bucket(Bucket& bucket) {
  if (bucket.entries.empty()) return;
  const bool alone =
      bucket.entries.size() == 1 && c_.elems(bucket.entries[0].param) > c_.knobs.reduce_bucket_size;
  Sent sent{bucket.type, std::move(bucket.entries)};
  bucket.entries.clear();
  if (c_.knobs.overlap_comm) receive();  // at most one bucket is in flight
  if (!contiguous()) {
    reduce_flattened(bucket, sent);
  } else {
    sent.slot = alone ? own_tensor(sent.entries[0].param) : bucket.slot();
    reduce(bucket, sent);
  }
  bucket.held = 0;
  in_flight_ = std::move(sent);
  if (!c_.knobs.overlap_comm) receive();
}

// How a bucket's elements are divided before they are summed. The copies that fill the bucket
// divide if the bucket itself is sent.
Collectives::Divided FlatBuckets::bucket_divisors(const Bucket& bucket) const {
  if (!c_.averages() || c_.ordered()) return {};
  if (c_.knobs.reduce_scatter) return {{static_cast<double>(c_.world()), 1}, {}};
  Collectives::Divided divided =
      collectives_.divided_by_copies(bucket.slot(), collectives_.predivided(), bucket.type);
  divided.reduction.after = collectives_.predivided().after;  // only a part is copied out
  divided.copies.after = 1;
  return divided;
}

void FlatBuckets::reduce(const Bucket& bucket, Sent& sent) {
  const Operand all = w_.update(sent.slot, 0, bucket.held);
  std::vector<int> params;
  for (const BucketEntry& e : sent.entries) params.push_back(e.param);
  const bool copied = sent.slot == bucket.slot();
  if (!c_.knobs.reduce_scatter)
    return collectives_.all_reduce(
        all, copied ? bucket_divisors(bucket).reduction : collectives_.predivided(), params,
        bucket.type);
  if (!copied && c_.averages() && !c_.ordered()) collectives_.divide(all, c_.world());
  if (separate_accum() && is_muon(c_.optimizer()))
    sent.lost = lost_gradients(sent.entries, states_.flat(), p_.model, p_.partition_rank());
  for (const BucketMessage& message :
       messages_of(sent.entries, states_.flat(), p_.model,
                   !c_.knobs.use_multi_rank_bucket_allreduce, c_.knobs.reduce_bucket_size))
    send(sent, message);
}

// Several slices are first flattened by a copy.
void FlatBuckets::send(Sent& sent, const BucketMessage& message) {
  Operand data = w_.update(sent.slot, message.slices[0].at, message.elems());
  if (message.slices.size() > 1) {
    const int flat = w_.slot("flat." + std::to_string(flats_++), Category::bucket, bucket_type(),
                             message.elems());
    w_.acquire(flat);
    Sent::Flattened flattened{flat, {}};
    std::int64_t at = 0;
    for (const BucketSlice& run : joined(message.slices)) {
      w_.convert(w_.write(flat, at, run.elems), w_.read(sent.slot, run.at, run.elems));
      at += run.elems;
    }
    flattened.back = message.slices;
    sent.flattened.push_back(std::move(flattened));
    data = w_.update(flat);
  }
  if (message.root == no_root)
    collectives_.all_reduce(data, {}, message.completes, sent.type, message.holders);
  else
    collectives_.reduce_to(data, message.root, message.completes, sent.type, message.holders);
}

// Without contiguous_gradients the tensors of a bucket are copied together, all-reduced once, and
// copied back.
void FlatBuckets::reduce_flattened(const Bucket& bucket, Sent& sent) {
  std::vector<int> params;
  for (const BucketEntry& e : sent.entries) params.push_back(e.param);
  const Divisors divisors{c_.averages() ? static_cast<double>(c_.world()) : 1, 1};
  if (params.size() == 1)
    return collectives_.all_reduce(w_.update(own_tensor(params[0])), divisors, params, sent.type);
  const int flat =
      w_.slot("flat." + std::to_string(flats_++), Category::bucket, bucket_type(), bucket.held);
  w_.acquire(flat);
  const Collectives::Divided divided = collectives_.divided_by_copies(flat, divisors, sent.type);
  for (const BucketEntry& e : sent.entries)
    w_.convert(w_.write(flat, e.at, c_.elems(e.param)), w_.read(own_tensor(e.param)),
               divided.copies.before);
  collectives_.all_reduce(w_.update(flat), divided.reduction, params, sent.type);
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
    const int own = own_tensor(e.param);
    const Operand grad = w_.alive(own) ? w_.read(own) : w_.read(sent.slot, e.at, c_.elems(e.param));
    const auto g = static_cast<std::size_t>(states_.flat().group_of(e.param));
    if (states_.owns(e.param) && exact_[g])
      keep_exactly(e.param, grad, std::ranges::count(sent.lost, e.param) > 0);
    else if (states_.owns(e.param))
      keep(e.param, grad);
    if (stays(e.param) && !w_.alive(own)) held_[sent.slot] = std::max(held_[sent.slot], g);
    if (!stays(e.param)) w_.drop(own);
  }
  if (!c_.knobs.overlap_comm) offload_.release_copied();
}

void FlatBuckets::copy_back(const Sent& sent, const Sent::Flattened& flattened) {
  if (sent.slot == no_slot) {
    for (const BucketEntry& e : sent.entries)
      w_.convert(w_.write(own_tensor(e.param)), w_.read(flattened.slot, e.at, c_.elems(e.param)));
  } else {
    std::int64_t at = 0;
    for (const BucketSlice& s : flattened.back) {
      if (s.matrix >= 0 ? states_.owns(s.matrix) : s.owner == p_.mesh.place_in(s.holders))
        w_.convert(w_.write(sent.slot, s.at, s.elems), w_.read(flattened.slot, at, s.elems));
      at += s.elems;
    }
  }
  w_.release(flattened.slot);
}

// Keeps whole gradients of every parameter that touches the partition, in the order of arrival.
void FlatBuckets::keep(int id, Operand grad) {
  if (c_.offloads()) return keep_on_host(id, grad);
  if (stay_apart()) return;
  const bool again = c_.stage() == 2 && !micro_.first;
  int& slot = again ? new_part_ : part_;
  c_.declare_once(slot, again ? "partition_gradients.new" : "partition_gradients", Category::grad,
                  c_.precision.model, part_elems_, recorded::partition_gradients);
  if (!w_.alive(slot)) w_.acquire(slot);
  place(id);
  w_.convert(w_.write(slot, part_offset_[id], c_.elems(id)), grad);
}

void FlatBuckets::place(int id) {
  if (part_offset_[id] >= 0) return;
  part_offset_[id] = part_end_;
  part_end_ += c_.elems(id);
}

void FlatBuckets::finish() {
  for (Bucket& bucket : buckets_) send_bucket(bucket);
  receive();
  offload_.release_copied();
  for (const Bucket& bucket : buckets_)
    for (int slot : bucket.slots)
      if (!held_.contains(slot)) w_.drop(slot);
  if (!c_.offloads()) hold_unused();
  if (w_.alive(new_part_)) {
    w_.accumulate(w_.update(part_, 0, part_end_), w_.read(new_part_, 0, part_end_));
    w_.release(new_part_);
  }
}

int FlatBuckets::acquire_exact_partition(std::size_t g) {
  const int sum = c_.declare_once(part32_[g], "partition_gradients" + states_.suffix(g),
                                  Category::grad, c_.precision.grad_accum,
                                  states_.groups()[g].partition, recorded::partition_gradients);
  if (!w_.alive(sum)) acquire_zeroed(w_, sum);
  return sum;
}

// Adds the owned slice of a reduced gradient to the exact partition, in the accumulation's type,
// and sends the sum to the host after the last micro-batch if the optimizer is there.
void FlatBuckets::keep_exactly(int id, Operand grad, bool lost) {
  const auto g = static_cast<std::size_t>(states_.flat().group_of(id));
  const OwnedSlice own = states_.owned(id);
  const std::int64_t at = states_.flat().offset_of(id) + own.first - states_.own_first(g);
  const Operand sum = w_.update(acquire_exact_partition(g), at, own.elems);
  if (!lost) w_.accumulate(sum, w_.read(grad, own.first, own.elems));
  if (c_.offloads() && micro_.last) send_to_host(id, sum);
}

// DeepSpeed makes a whole gradient of zeros for an unused parameter that touches the partition.
void FlatBuckets::hold_unused() {
  for (std::size_t g = 0; g < states_.groups().size(); ++g)
    for (int id : states_.groups()[g].params) {
      if (exact_[g] || c_.param(id).use != ParamUse::unused || !states_.owns(id)) continue;
      const int zero =
          c_.declare_once(unused_[id], "grad_zeros." + c_.name(id), Category::grad,
                          c_.precision.grad_accum, c_.elems(id), recorded::partition_gradients);
      if (!w_.alive(zero)) acquire_zeroed(w_, zero);
    }
}

// After the last backward of a step DeepSpeed has a tensor for each element of the partition: zeros
// for padding, for the gaps of parameter_alignment, and for a partition that no parameter touches.
void FlatBuckets::hold_partition() {
  if (c_.offloads()) return;
  for (std::size_t g = 0; g < states_.groups().size(); ++g) {
    const FlatGroup& group = states_.groups()[g];
    if (exact_[g]) {
      acquire_exact_partition(g);
      continue;
    }
    std::int64_t covered = 0;
    for (const FlatParam& f : group.layout) covered += states_.owned(f.param).elems;
    if (covered == group.partition) continue;
    acquire_zeroed(w_, c_.declare_once(zeros_[g], "partition_zeros" + states_.suffix(g),
                                       Category::grad, c_.precision.grad_accum,
                                       group.partition - covered, recorded::partition_gradients));
  }
}

int FlatBuckets::exact_partition(std::size_t g) const {
  return w_.alive(part32_[g]) ? part32_[g] : no_slot;
}

void FlatBuckets::flatten_owned(std::size_t g, int into) {
  const FlatGroup& group = states_.groups()[g];
  std::int64_t covered = 0;
  for (const FlatParam& f : group.layout)
    covered += kept(f.param) ? states_.owned(f.param).elems : 0;
  if (covered < group.partition) w_.compute(Kernel::zero, {w_.write(into)});
  for (const FlatParam& f : group.layout)
    if (const OwnedSlice own = states_.owned(f.param); own.elems > 0 && kept(f.param))
      w_.convert(w_.write(into, f.offset + own.first - states_.own_first(g), own.elems),
                 owned_slice(f.param, own));
}

Dtype FlatBuckets::flat_type(std::size_t g) const {
  return w_.alive(zeros_[g]) ? w_[zeros_[g]].dtype : kept_type();
}

void FlatBuckets::drop_accumulated(std::size_t g, bool owned) {
  for (const int id : states_.groups()[g].params)
    if (states_.owns(id) == owned) w_.drop(accum_[id]);
  if (owned) return;
  for (const auto& [slot, last] : held_)
    if (last == g) w_.release(slot);
}

void FlatBuckets::release_all(bool skipped) {
  drop_kept();
  for (const auto& [slot, last] : held_) w_.drop(slot);
  for (const std::vector<int>* held : {&part32_, &zeros_, &unused_, &accum_})
    if (!(skipped && held == &part32_ && sums_outlive_skips()))
      for (int slot : *held) w_.drop(slot);
  replaced_.assign(replaced_.size(), {});
}

std::vector<Operand> FlatBuckets::owned_grads(std::size_t g, bool counted) const {
  const bool all = !counted || c_.counts_all();
  const int exact = exact_partition(g);
  if (exact != no_slot && all) return {w_.read(exact)};
  std::vector<Operand> slices;
  for (const FlatParam& f : states_.groups()[g].layout) {
    const OwnedSlice own = states_.owned(f.param);
    if (own.elems == 0 || !(all || c_.counts(f.param))) continue;
    if (exact != no_slot)
      slices.push_back(w_.read(exact, f.offset + own.first - states_.own_first(g), own.elems));
    else if (kept(f.param))
      slices.push_back(owned_slice(f.param, own));
  }
  return slices;
}

}  // namespace shardmark
