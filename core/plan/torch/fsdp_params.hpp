// SPDX-License-Identifier: Apache-2.0
// The parameters of `fully_shard`: gathered into one flat message per group (copy-in, all_gather),
// copied out to whole tensors, and dropped again.
//
// Source: torch 2.15, _fsdp_param_group.py, unshard, wait_for_unshard and reshard.
#pragma once

#include <optional>
#include <vector>

#include <core/plan/torch/fsdp_context.hpp>

namespace shardmark {

/// Follows where each group's parameters are, and writes what moves them. Groups are named by their
/// index.
class FsdpParams : private FsdpPart {
 public:
  explicit FsdpParams(FsdpContext& context) : FsdpPart(context), states_(context.groups.size()) {}

  /// Starts to gather a group, unless it is gathered or on its way.
  void unshard(int group);
  /// Completes what `unshard` started: from now on modules compute with whole parameters. Forward
  /// keeps the received message until the next group's has arrived.
  void wait(int group, bool in_forward);
  /// Drops the whole parameters of a group; after its forward possibly not all of them.
  void reshard(int group);
  void reshard_after_forward(int group);
  /// Releases the message that forward kept, and a gather that nobody waited for.
  void release_kept();
  void drop_unused_gather(int group);

  /// Where a whole parameter lies.
  Operand whole(int id) const;

 private:
  enum class Place { shards, parts, whole };
  struct State {
    Place place = Place::shards;
    bool on_its_way = false;
  };
  const FsdpGroup& group(int g) const { return c_.groups[g]; }
  const FsdpSlots& slots(int g) const { return c_.slots[g]; }
  void copy_in(int g, Operand into);

  std::vector<State> states_;
  std::optional<int> kept_;  // the group whose message forward keeps
};

}  // namespace shardmark
