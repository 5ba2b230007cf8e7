// SPDX-License-Identifier: Apache-2.0
// Gradients of DeepSpeed's stages 1 and 2: through buckets and messages to the ranks that own them.
// At most one bucket is on its way while the next one fills.
#pragma once

#include <array>
#include <optional>

#include <core/plan/deepspeed/stage12/bucket_messages.hpp>
#include <core/plan/deepspeed/stage12/stage12_states.hpp>

namespace shardmark {

class FlatGradients : public FlatStates {
 public:
  FlatGradients(Program& program, const Deck& deck, const Profile& profile,
                const FlatGroups& groups);

 protected:
  int stage() const { return p_.stage; }
  /// DeepSpeed's stage 2 accumulates in the model's type where gradients go to the host.
  bool separate_accum() const {
    return precision_.grad_accum != precision_.model && !(stage() == 2 && offloads());
  }
  bool contiguous() const { return knobs_.contiguous_gradients || offloads(); }
  bool owns(int id) const { return flat_.owned(id, p_.rank).elems > 0; }

  /// Before the backward of a micro-batch: the first, the last of its step.
  void begin_gradients(bool first_micro, bool last_micro) {
    first_ = first_micro;
    last_ = last_micro;
  }
  /// What offload keeps on either side for the whole run.
  void acquire_offload();
  /// Allocates the buckets at the first gradient, whether they are used in this micro-batch or not.
  void acquire_buckets();
  /// A gradient type of its own at stage 1: each micro-batch's gradient is added to a full copy.
  void accumulate_locally(int id);
  /// Puts a ready gradient into the bucket; sends the bucket first where it would grow too large.
  void add_to_bucket(int id);
  /// Sends what is left, keeps what this rank owns, frees the buckets.
  void epilogue();
  /// Whether group `g` has its gradients as exactly the partition.
  bool exact_partition(std::size_t g) const;
  /// This rank's gradients of a group: slices of whole tensors, or the exact partition.
  std::vector<Operand> owned_grads(std::size_t g) const;

  std::vector<int> part32_;  // by group: owned gradients in a type of their own
  int part_ = no_slot, new_part_ = no_slot;
  std::vector<std::int64_t> part_offset_;  // by parameter, in part_; -1: not placed yet

 private:
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
  void flush();
  Divided bucket_divisors() const;
  void reduce(Sent& sent);
  void send(Sent& sent, const BucketMessage& message);
  void reduce_flattened(Sent& sent);
  void retire();
  void keep(int id, Operand grad);
  void keep_on_host(int id, Operand grad);
  void accumulate_on_host(int id, Operand grad);
  void place(int id);
  void accumulate_partition();

  std::vector<int> accum_;  // by parameter, see accumulate_locally
  std::array<int, 2> buckets_{no_slot, no_slot};
  int current_ = 0;                     // bucket that is being filled
  std::vector<BucketEntry> in_bucket_;  // its gradients
  std::int64_t held_ = 0;               // its elements
  std::optional<Sent> in_flight_;
  int flats_ = 0;  // names of the flattened copies
  std::int64_t part_end_ = 0, part_elems_ = 0;
  bool first_ = true, last_ = true;  // of a step's micro-batches
  int host_sum_ = no_slot;           // offload: what earlier micro-batches left
  int scratch_ = no_slot, host_scratch_ = no_slot;
};

}  // namespace shardmark
