// SPDX-License-Identifier: Apache-2.0
// Parameters in files (`offload_param.device` "nvme", stage 3). A shard that is large enough has a
// file; to be gathered it is read into one of a fixed number of page-locked buffers of the host,
// and keeps that until the parameter is dropped. What the optimizer updated is written back through
// a buffer of its own.
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

/// Which buffer a parameter's shard is in; part of what one segment hands to the next.
using Buffered = std::map<int, int>;

class ParamSwapper {
 public:
  ParamSwapper(PlanWriter& writer, const Deck& deck)
      : w_(writer),
        deck_(deck),
        spec_(deck.zero.offload_param),
        aio_(deck.zero.aio),
        dtype_(deck.zero.precision.model) {}

  /// Whether there are files at all.
  bool active() const { return spec_.enabled && spec_.nvme; }
  /// Whether a shard of `elems` is worth a file.
  bool swaps(std::int64_t elems) const { return active() && worth_a_file(aio_, dtype_, elems); }

  /// Declares a parameter's file; its slot. Throws DeckError where no buffer can hold the shard.
  int add(int param, const std::string& name, std::int64_t elems);
  bool is_file(int param) const { return files_.contains(param); }
  /// Start-up: all buffers, zero. `write_back`: elements of each shard of the largest sub-group,
  /// where any sub-group is updated through files; empty: none is.
  void begin(const std::vector<std::int64_t>& write_back);

  /// Reads a shard, unless it is there. Throws DeckError where all buffers are in use.
  void bring_in(int param, Buffered& buffered);
  /// The shard in its buffer.
  Operand shard(int param, const Buffered& buffered) const;
  /// Start-up: a buffer for a shard that is made there, and its way to the file.
  int take_buffer(int param, Buffered& buffered);
  void write_first(int param, Buffered& buffered);
  int free_buffers(const Buffered& buffered) const {
    return static_cast<int>(spec_.buffer_count) - static_cast<int>(buffered.size());
  }

  /// A sub-group was updated: where a shard's new values go, one after another, then to the files.
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
    return w_.part(buffers_, buffer * buffer_elems_, elems, true, true);
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
