// SPDX-License-Identifier: Apache-2.0
// When stage 3 gathers and drops parameters. This is DeepSpeed's parameter coordinator, followed
// visit by visit without any data. The first pass records the trace of visits and gathers on demand
// only; later passes prefetch along the trace and keep parameters that are used again soon.
//
// Source: DeepSpeed 0.19's runtime/zero/partitioned_param_coordinator.py, and recordings of 0.19.8.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <core/plan/model/model_shape.hpp>

namespace shardmark {

/// What the coordinator orders. Parameters of one fetch are gathered together, in registration
/// order.
class FetchActions {
 public:
  virtual ~FetchActions() = default;
  virtual void fetch(const std::vector<int>& params) = 0;   // starts their gather
  virtual void arrive(const std::vector<int>& params) = 0;  // waits for it
  virtual void release(int param) = 0;
  /// Whether the parameter's shard is in a file and in no memory.
  virtual bool on_disk(int /*param*/) const { return false; }
  /// How many more shards can be read from files, and the order to read some.
  virtual int room_to_read() const { return 0; }
  virtual void read_ahead(const std::vector<int>& /*params*/) {}
  /// Whether the parameter is gathered from a secondary copy. Such parameters are not gathered
  /// together with others.
  virtual bool has_secondary(int /*param*/) const { return false; }
  /// Rank 0 compares a recorded list of `elems` integers with all ranks.
  virtual void compare_lists(std::int64_t elems) = 0;
};

/// Decides at each visit which parameters to gather, to wait for and to drop, and orders that from
/// `FetchActions`. A plain value: a copy continues from the same state.
class Coordinator {
 public:
  /// Parameters of up to param_persistence_threshold elements stay gathered once the trace is
  /// known. They are chosen in registration order while their sum is within
  /// model_persistence_threshold.
  Coordinator(const ModelShape& model, const ZeroKnobs& knobs);

  /// The leaf that a module lies in, which may be itself, or -1.
  int leaf_of(int module) const { return leaves_[static_cast<std::size_t>(module)]; }
  /// To be called before the root's forward.
  void begin_pass(FetchActions& actions);
  /// Does nothing for a module inside of a leaf.
  void visit(const Visit& visit, FetchActions& actions);
  /// After the backward pass: drops the parameters that no post-backward hook has dropped.
  void end_pass(FetchActions& actions);
  /// At the beginning of the optimizer step: drops all parameters.
  void release_all(FetchActions& actions);
  /// At the end of the step: the persistent parameters are gathered again.
  void gathered_persistent();

  const std::vector<int>& persistent() const { return persistent_; }
  bool persists(int param) const { return persists_[param]; }
  /// Equal for two coordinators that would order the same from now on.
  std::string key() const;

 private:
  enum class Trace : std::uint8_t { invalid, recording, complete };
  enum class Status : std::uint8_t { absent, in_flight, available };
  struct Use {
    int param;
    std::int64_t step;  // of the trace, in which it is used
  };
  // The trace as DeepSpeed reads it when it asks which parameters are used again soon: a module
  // counts the parameters of modules alone, and a leaf also all that lie in them.
  struct Reuse {
    std::vector<std::int64_t> elems_before;           // by step: elements used before
    std::vector<std::vector<std::int64_t>> steps_of;  // by parameter: the steps that use it
  };

  bool has_leaves() const {
    return std::ranges::any_of(leaves_, [](int leaf) { return leaf >= 0; });
  }
  void fetch_module(int module, bool forward, FetchActions& actions);
  void gather(std::vector<int> params, FetchActions& actions);
  void arrive(int param, FetchActions& actions);
  void prefetch(FetchActions& actions);
  void read_ahead(FetchActions& actions);
  void skip_queue(const std::vector<int>& params);
  void release_module(int module, bool forward, FetchActions& actions);
  void release(int param, FetchActions& actions);
  std::set<int>& to_release(int module);
  void finish_recording();
  Reuse reuse_of(const std::vector<std::vector<int>>& params) const;
  void drop_in_flight(FetchActions& actions);

  const ModelShape* model_;
  const ZeroKnobs* knobs_;
  std::vector<int> leaves_;               // by module, as leaves_of
  std::vector<std::vector<int>> params_;  // by module, of a leaf with all that lie in it
  std::vector<int> persistent_;
  std::vector<bool> persists_;  // by parameter

  Trace trace_ = Trace::invalid;
  std::vector<int> modules_;       // the trace: modules in the order of their fetches
  std::vector<Use> uses_;          // the parameters that those modules use, in order
  Reuse reuse_, reuse_of_leaves_;  // what modules and what leaves see of the trace
  std::vector<Status> status_;
  std::vector<int> handle_;                // of a parameter in flight
  std::vector<std::vector<int>> handles_;  // parameters by handle
  std::vector<std::set<int>> active_;      // modules that hold a parameter
  std::vector<int> in_backward_;           // modules whose backward has begun and not ended
  // By module: frozen parameters that a recomputation fetched while it was the latest of those.
  std::vector<std::set<int>> recomputed_;
  std::vector<std::int64_t> fetched_for_;  // by parameter: the latest step it was fetched for
  std::size_t queue_ = 0;                  // next of uses_
  std::int64_t step_ = 0, available_elems_ = 0, in_flight_elems_ = 0;
  // DeepSpeed never clears this cache, so the decisions of the first traced pass remain.
  std::map<std::pair<int, std::int64_t>, std::set<int>> release_cache_;
};

}  // namespace shardmark
