// SPDX-License-Identifier: Apache-2.0
// The way of the gradients of DeepSpeed's stages 1 and 2: through buckets and messages to the ranks
// that own them. Each type in which gradients are sent has a bucket of its own. At most one bucket
// is in flight while the next ones fill.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <vector>

#include <core/plan/deepspeed/gradient_offload.hpp>
#include <core/plan/deepspeed/stage12/bucket_messages.hpp>
#include <core/plan/deepspeed/stage12/stage12_states.hpp>
#include <core/plan/write/step_writer.hpp>

namespace shardmark {

/// Fills, sends and receives the buckets, and keeps the gradients that this rank owns.
class FlatBuckets : private StagePart {
 public:
  FlatBuckets(StageContext& context, FlatStates& states);

  /// Whether micro-batches add up in a type of their own.
  bool separate_accum() const { return c_.precision.grad_accum != c_.precision.model; }
  /// The type in which the gradients of matrices are kept, as Muon's momentum is, too.
  Dtype kept_type() const { return stay_apart() ? c_.precision.grad_accum : c_.precision.model; }

  /// Start-up: acquires what offloading keeps on both sides for the whole run.
  void acquire_offload();
  void begin_micro(const MicroBatch& micro) { micro_ = micro; }
  /// Acquires the buckets at the first gradient, whether this micro-batch uses them or not.
  void acquire();
  /// Stage 1 with an accumulation type of its own: adds a micro-batch's gradient to a whole copy.
  void accumulate_locally(int id);
  /// Puts a ready gradient into its bucket, and sends the bucket first if it would grow too large.
  void add(int id);
  /// Corrects the gradients of a step that are reduced together, in the order of parameters, before
  /// the first is added. Those that are reduced when they are ready are corrected by `add`.
  void correct_all();
  /// Sends what is left, keeps what this rank owns, and releases the buckets.
  void finish();
  /// The end of the accumulation: what DeepSpeed holds for elements of the partition besides.
  void hold_partition();

  /// The slot that holds exactly this rank's partition of a group's gradients; no_slot if they are
  /// kept as whole tensors.
  int exact_partition(std::size_t g) const;
  /// This rank's gradients of a group, or those of them that it counts in the norm: the exact
  /// partition, or slices of it or of whole tensors.
  std::vector<Operand> owned_grads(std::size_t g, bool counted) const;
  /// Whether a gradient arrives and is kept as a whole; those of unused parameters never do.
  bool kept(int id) const { return c_.param(id).use == ParamUse::trained; }
  /// Where the gradient of an owned parameter is kept as a whole.
  Operand whole_grad(int id) const {
    if (stay_apart()) return w_.update(accum_[id]);
    return w_.update(part_, part_offset_[id], c_.elems(id));
  }
  /// From now on this step's update `whole`, elsewhere, stands for the gradient of a parameter.
  void replace(int id, Operand whole) { replaced_[id] = whole; }
  /// Whether the gradients that arrive are kept in one buffer, and stay as long as any of them
  /// does.
  bool contiguous() const { return c_.knobs.contiguous_gradients || c_.offloads(); }
  /// Whether whole gradients are kept until Muon's updates are made, and no longer.
  bool drops_updated() const { return separate_accum() && c_.stage() == 2; }
  /// Releases them.
  void drop_kept() { w_.drop(part_); }
  /// The type of the flat partition of a group, which zeros for padding widen.
  Dtype flat_type(std::size_t g) const;
  /// Copies the slices of a group that this rank owns into the flat partition `into`.
  void flatten_owned(std::size_t g, int into);
  /// The update of a group: releases what DeepSpeed still holds of the gradients that other ranks
  /// own or, if `owned`, of those that this rank owns.
  void drop_accumulated(std::size_t g, bool owned);
  /// Whether exact partitions stay after a skipped step with the optimizer on the host. DeepSpeed
  /// adds to them in the next step, so that what is not finite makes all later steps overflow.
  bool sums_outlive_skips() const { return separate_accum() && c_.offloads(); }
  /// Releases all gradients at the end of a step, but for these.
  void release_all(bool skipped);

 private:
  // A bucket that is being filled. With overlap_comm it has two slots, which take turns.
  struct Bucket {
    Dtype type;  // in which its gradients are sent
    std::array<int, 2> slots{no_slot, no_slot};
    int current = 0;
    std::vector<BucketEntry> entries = {};
    std::int64_t held = 0;  // its elements
    int slot() const { return slots[current]; }
  };
  // A bucket whose messages have been sent, and what must be done once they have arrived.
  struct Sent {
    Dtype type;  // in which they were sent
    std::vector<BucketEntry> entries;
    int slot = no_slot;          // where the entries lie; no_slot if each lies in its own gradient
    std::vector<int> lost = {};  // see lost_gradients
    /// A message that was copied into a buffer of its own to be sent.
    struct Flattened {
      int slot;
      std::vector<BucketSlice> back;  // slices that this rank copies back
    };
    std::vector<Flattened> flattened = {};
  };
  /// The owned slice of a gradient that is kept as a whole, or of the update in its place.
  Operand owned_slice(int id, const OwnedSlice& own) const {
    const Operand& update = replaced_[id];
    if (update.slot == no_slot) return w_.read(part_, part_offset_[id] + own.first, own.elems);
    return w_.read(update, own.first, own.elems);
  }
  Bucket& bucket_of(int id);
  void send_bucket(Bucket& bucket);
  Collectives::Divided bucket_divisors(const Bucket& bucket) const;
  void reduce(const Bucket& bucket, Sent& sent);
  void send(Sent& sent, const BucketMessage& message);
  void reduce_flattened(const Bucket& bucket, Sent& sent);
  void receive();
  void copy_back(const Sent& sent, const Sent::Flattened& flattened);
  void keep(int id, Operand grad);
  void keep_exactly(int id, Operand grad, bool lost);
  void keep_on_host(int id, Operand grad);
  void send_to_host(int id, Operand slice);
  void accumulate_on_host(int id, Operand grad);
  void place(int id);
  int acquire_exact_partition(std::size_t g);
  void hold_unused();
  /// The type in which gradients lie in the buckets.
  Dtype bucket_type() const {
    return accumulates_whole() ? c_.precision.grad_accum : c_.precision.model;
  }
  /// Whether each gradient adds up as a whole, in a type of its own, until the step ends.
  bool accumulates_whole() const { return c_.stage() == 1 && separate_accum(); }
  /// Whether these sums are no part of a buffer, and stay where they are until the step ends.
  bool stay_apart() const { return accumulates_whole() && !contiguous(); }
  /// Whether DeepSpeed holds the sum of a gradient until the step ends. What lies in a bucket then
  /// keeps the bucket alive.
  bool stays(int id) const { return accumulates_whole() && (stay_apart() || !states_.owns(id)); }
  /// Where a gradient lies that is not in a bucket.
  int own_tensor(int id) { return accumulates_whole() ? accum_[id] : grads_.slot(id); }

  // Whether gradients are reduced one by one as they become ready.
  bool hooks_correct() const { return c_.stage() == 2 || c_.knobs.overlap_comm; }

  FlatStates& states_;
  GradientOffload offload_;

  // By group: whether owned gradients add up in a partition of a type of their own, and which.
  // Matrices that Muon updates do not.
  std::vector<bool> exact_;
  std::vector<int> part32_;
  std::vector<int> zeros_;  // by group: what DeepSpeed holds for elements that no parameter covers
  int part_ = no_slot, new_part_ = no_slot;
  std::vector<std::int64_t> part_offset_;    // by parameter, in part_; -1 if it has no place yet
  std::vector<Operand> replaced_;            // by parameter, see replace
  std::vector<int> accum_ = c_.no_slots();   // by parameter, see accumulate_locally
  std::map<int, std::size_t> held_;          // buckets that stay, and until which group's update
  std::vector<int> unused_ = c_.no_slots();  // by parameter, see hold_unused
  std::vector<Bucket> buckets_;              // by type, in DeepSpeed's order
  std::optional<Sent> in_flight_;
  int flats_ = 0;  // numbers the flattened copies
  std::int64_t part_end_ = 0, part_elems_ = 0;
  MicroBatch micro_;
  int host_sum_ = no_slot;  // offload: the sum that earlier micro-batches left
  int scratch_ = no_slot, host_scratch_ = no_slot;
};

}  // namespace shardmark
