// SPDX-License-Identifier: Apache-2.0
// Makes the computations of this rank take longer, as the deck's section `perturb` asks.
#pragma once

#include <cstdint>
#include <memory>

#include <core/nn/kernels/context.hpp>
#include <core/plan/deck/perturb.hpp>
#include <miniapp/models/event_model.hpp>
#include <miniapp/models/memory_burner.hpp>

namespace shardmark {

/// A model whose events take longer than those of the model that it wraps. Values do not change.
class SlowedModel : public Model {
 public:
  /// `context` lets collectives progress while an event takes longer, as beside a device that
  /// computes, and says so in `emulating`. `burner` may be null if no step asks for traffic in
  /// memory. Both must outlive the model.
  SlowedModel(std::unique_ptr<Model> inner, Context& context, MemoryBurner* burner)
      : inner_(std::move(inner)), context_(context), burner_(burner) {}

  /// From now on, until the next call. A pause comes before the next event, and nothing progresses
  /// in it.
  void begin_step(const Slowness& slowness);
  void run(const Program& program, const Event& event, std::span<const Bound> operands,
           const StepValues& values) override;
  std::span<const std::int64_t> expert_rows() const override { return inner_->expert_rows(); }
  std::span<const std::int64_t> arrived_rows() const override { return inner_->arrived_rows(); }
  std::span<const std::int64_t> routed_parts(int module, Routed routed) const override {
    return inner_->routed_parts(module, routed);
  }
  bool burns_memory() const { return now_.memory.active(); }
  /// By how much the events were made longer, in total.
  std::int64_t injected_ns() const { return injected_ns_; }

 private:
  std::unique_ptr<Model> inner_;
  Context& context_;
  MemoryBurner* burner_;
  Slowness now_;
  std::int64_t injected_ns_ = 0;
};

}  // namespace shardmark
