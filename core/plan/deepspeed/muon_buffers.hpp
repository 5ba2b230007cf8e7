// SPDX-License-Identifier: Apache-2.0
// The buffers of Muon's whole matrices, and those in which they are gathered.
#pragma once

#include <compare>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <core/plan/deepspeed/deepspeed_context.hpp>

namespace shardmark {

/// Buffers of which those of one name and size are one slot. Names are numbered.
class SizedSlots {
 public:
  explicit SizedSlots(PlanWriter& writer) : w_(writer) {}

  /// The slot for `elems` elements, declared when it is first asked for. The caller acquires and
  /// releases it.
  int slot(const std::string& name, Category category, Dtype dtype, std::int64_t elems);
  int whole(const std::string& name, std::int64_t elems) {
    return slot(name, Category::gathered, Dtype::fp32, elems);
  }

 private:
  PlanWriter& w_;
  std::map<std::pair<std::string, std::int64_t>, int> slots_;
};

/// The buffers that gathers send from and receive in. Gathers of equal size share theirs. From one
/// gather to the next DeepSpeed keeps those that were used last, as many as fit into 256 MiB.
///
/// Source: DeepSpeed 0.19's _muon_allgather_buffers in stage_1_and_2.py and stage3.py.
class GatherBuffers : private DeepSpeedPart {
 public:
  struct Size {
    std::size_t group = 0;
    std::int64_t chunk = 0;  // elements that each rank sends of one list
    int lists = 1;
    std::int64_t row() const { return chunk * lists; }
    auto operator<=>(const Size&) const = default;
  };
  struct Buffers {
    int local = no_slot, gathered = no_slot;
  };
  GatherBuffers(DeepSpeedContext& context, Dtype type) : DeepSpeedPart(context), type_(type) {}

  Dtype type() const { return type_; }
  /// Start-up: acquires the buffers that stay after these gathers, which must have led to a state
  /// that each further step repeats.
  void keep_after(const std::vector<Size>& gathers);
  /// Runs `send(buffers)` with the buffers alive.
  template<class Send>
  void with(const Size& size, Send send) {
    const Buffers b = of(size);
    const bool stays = w_.alive(b.local);
    for (const int slot : {b.local, b.gathered})
      if (!stays) w_.acquire(slot);
    send(b);
    for (const int slot : {b.local, b.gathered})
      if (!stays) w_.release(slot);
  }

 private:
  Buffers of(const Size& size);

  const Dtype type_;
  std::map<Size, Buffers> buffers_;
};

}  // namespace shardmark
