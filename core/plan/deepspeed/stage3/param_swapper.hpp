// SPDX-License-Identifier: Apache-2.0
// Parameters in files (`offload_param.device` "nvme", stage 3). A shard that is large enough has a
// file. Before its parameter is gathered the shard is read into one of a fixed number of
// page-locked buffers on the host, and it keeps the buffer until the parameter is dropped. Updated
// shards are written back through a buffer of their own.
//
// Source: DeepSpeed 0.19's runtime/swap_tensor/partitioned_param_swapper.py, and its use in
// runtime/zero/partition_parameters.py and stage3.py.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <core/plan/deepspeed/stage3/swap_rules.hpp>
#include <core/plan/write/compute_writer.hpp>
#include <core/plan/write/plan_writer.hpp>

namespace shardmark {

/// The buffer of each parameter whose shard is in one; part of what one segment hands to the next.
using Buffered = std::map<int, int>;

/// Writes the events that bring shards of parameters from files into buffers and back.
class ParamSwapper {
 public:
  ParamSwapper(PlanWriter& writer, const Deck& deck)
      : w_(writer),
        deck_(deck),
        spec_(deck.zero.offload_param),
        aio_(deck.zero.aio),
        dtype_(deck.zero.precision.model) {}

  /// Whether parameters may lie in files at all.
  bool active() const { return spec_.enabled && spec_.nvme; }
  /// Whether a shard of `elems` elements is large enough for a file.
  bool swaps(std::int64_t elems) const { return active() && worth_a_file(aio_, dtype_, elems); }

  /// Declares a parameter's file and returns its slot. Throws DeckError if the shard is larger than
  /// a buffer.
  int add(int param, const std::string& name, std::int64_t elems);
  bool is_file(int param) const { return files_.contains(param); }
  /// Start-up: acquires all buffers and clears them. `write_back` has the elements of each shard of
  /// the largest sub-group, or is empty if no sub-group is updated through files.
  void begin(const std::vector<std::int64_t>& write_back);

  /// Reads a shard unless it is in a buffer already. Throws DeckError if all buffers are in use.
  void bring_in(int param, Buffered& buffered);
  /// The shard in its buffer.
  Operand shard(int param, const Buffered& buffered) const;
  /// Start-up: takes a buffer for a shard that is made there, and writes the shard to its file.
  int take_buffer(int param, Buffered& buffered);
  void write_first(int param, Buffered& buffered);
  int free_buffers(const Buffered& buffered) const {
    return static_cast<int>(spec_.buffer_count) - static_cast<int>(buffered.size());
  }

  /// After a sub-group's update: the place for a shard's new values, which `write_back` then writes
  /// to the files.
  Operand place_to_write(int param);
  void write_back();

 private:
  struct File {
    std::string name;
    int slot;
    std::int64_t elems;
  };
  std::int64_t aligned(std::int64_t elems) const { return file_elems(aio_, dtype_, elems); }
  Operand part(int buffer, std::int64_t elems) const {
    return w_.update(buffers_, buffer * buffer_elems_, elems);
  }

  PlanWriter& w_;
  const Deck& deck_;
  const OffloadSpec& spec_;
  const AioSpec& aio_;
  Dtype dtype_;
  std::map<int, File> files_;  // by parameter
  int buffers_ = no_slot, pool_ = no_slot;
  std::int64_t buffer_elems_ = 0, pooled_ = 0;
  std::vector<int> to_write_;
};

}  // namespace shardmark
