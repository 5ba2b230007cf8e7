// SPDX-License-Identifier: Apache-2.0
// The session of a run with everything beneath it: communicators with their decorators, matrix
// products, and the self-check that ran on them first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <comm/decorators/counting.hpp>
#include <comm/mpi/background_traffic.hpp>
#include <comm/shm/core_distance.hpp>
#include <core/memory/process_memory.hpp>
#include <core/nn/products/matmul.hpp>
#include <io/data/witness.hpp>
#include <miniapp/execute/session.hpp>
#include <miniapp/measure/device_figure.hpp>
#include <miniapp/measure/run_record.hpp>
#include <miniapp/models/memory_burner.hpp>
#include <miniapp/models/slowed_model.hpp>
#include <miniapp/run/run_plan.hpp>

namespace shardmark {

/// Opens the session of a run and closes it.
class RunSession {
 public:
  /// Opens nothing yet. Both must outlive it.
  RunSession(const RunPlan& run, const World& world) : run_(run), world_(world) {}
  /// Collective after an open() that has succeeded: the ranks free their communicators.
  ~RunSession();
  RunSession(const RunSession&) = delete;
  RunSession& operator=(const RunSession&) = delete;

  /// Collective. Makes the communicators, runs the self-check on them, and opens the session.
  /// Throws AgreedError, CommError.
  void open();
  /// Local. Frees the memory of the session, whose communicators stay. Only context(), matmul(),
  /// counters() and what was recorded may be used from here on.
  void close() { session_.reset(); }

  // After open():
  Session& session() { return *session_; }
  Executor& executor() { return session_->executor(); }
  StepRunner& steps() { return session_->steps(); }
  const Context& context() const { return *context_; }
  MatMul& matmul() { return *matmul_; }
  CommCounters& counters() { return counters_; }
  DataWitness& data_witness() { return data_witness_; }
  const Node& node() const { return world_.node; }
  DeadlineGuard& guard() { return world_.guard; }
  Proof* proof() { return proof_ ? &*proof_ : nullptr; }         // null with one rank
  CoreDistance* cores() { return cores_ ? &*cores_ : nullptr; }  // null if nothing is predicted
  std::int64_t clock_offset_ns() const { return clock_offset_ns_; }
  /// The ranks that the deck makes slower; the same on all ranks.
  const std::vector<int>& slowed_ranks() const { return slowed_ranks_; }
  /// Local. Makes this rank as slow as the deck's `perturb` asks in `step`.
  void slow_down_in(std::int64_t step);
  void slow_down_no_more() {
    if (slowed_ != nullptr) slowed_->begin_step({});
  }
  /// Whether a thread of this rank writes to memory beside the work since then.
  bool burns_memory() const { return slowed_ != nullptr && slowed_->burns_memory(); }
  /// By how much this rank was made slower so far.
  std::int64_t injected_ns() const { return slowed_ != nullptr ? slowed_->injected_ns() : 0; }
  /// What the deck's `perturb` and `congestion` did on this rank so far, and the memory for it.
  EmulatedTraffic emulated() const;
  /// The ranks with background traffic; the same on all ranks.
  const std::vector<int>& congested_ranks() const { return congested_ranks_; }
  /// Begins and ends the background traffic, if the deck asks for any. Each of them once; the end
  /// is collective. Throws CommError.
  void begin_congestion() {
    if (traffic_) traffic_->begin();
  }
  void end_congestion();
  const std::string& bf16_products() const { return bf16_products_; }
  /// What the back-end of the collectives chose for this machine; empty if it had no choice.
  const std::string& collectives() const { return collectives_; }
  const std::string& self_check() const { return self_check_; }  // empty: it passed
  const ProcessMemory& memory_at_start() const { return memory_at_start_; }
  /// The device's memory before and after open(); the look at the end is left to the caller.
  const DeviceLooks& device() const { return device_; }

 private:
  const RunPlan& run_;
  const World& world_;
  CommCounters counters_;
  std::optional<Proof> proof_;
  std::optional<CoreDistance> cores_;
  std::optional<BackgroundTraffic> traffic_;
  std::optional<MemoryBurner> burner_;
  DataWitness data_witness_;
  std::optional<Lanes> lanes_;
  std::optional<MatMul> matmul_;
  std::optional<Context> context_;
  SlowedModel* slowed_ = nullptr;  // of the session; null if this rank is not made slower
  std::vector<int> slowed_ranks_, congested_ranks_;
  void find_emulated_ranks();
  std::optional<Session> session_;
  std::int64_t clock_offset_ns_ = 0;
  ProcessMemory memory_at_start_;
  std::string bf16_products_, collectives_, self_check_;
  DeviceLooks device_;
};

}  // namespace shardmark
