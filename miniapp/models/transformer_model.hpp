// SPDX-License-Identifier: Apache-2.0
// `compute: train`: forward, backward and update of a real transformer on the plan's buffers.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include <core/nn/kernels/context.hpp>
#include <core/nn/models/transformer.hpp>
#include <core/plan/deck/deck.hpp>
#include <core/plan/model/transformer_sizes.hpp>
#include <io/data/tokens.hpp>
#include <miniapp/models/event_model.hpp>

namespace shardmark {

/// The model of every family that has arithmetic.
class TransformerModel : public Model {
 public:
  /// Deck and context must outlive it. `tokens` is what the model is trained on.
  TransformerModel(const Deck& deck, const Program& program, const Context& context,
                   std::unique_ptr<TokenSource> tokens);
  void run(const Program& program, const Event& event, std::span<const Bound> operands,
           const StepValues& values) override;
  std::span<const std::int64_t> expert_rows() const override { return expert_rows_; }
  std::span<const std::int64_t> arrived_rows() const override { return arrived_rows_; }
  std::span<const std::int64_t> routed_parts(int module, Routed routed) const override {
    return routed_parts_.at(module)[routed];
  }

 private:
  void init(const Program& program, const Event& event, const Bound& param) const;
  void load_batch(const Program& program, std::span<const Bound> into,
                  const StepValues& values) const;
  void load_part(std::vector<std::int32_t>& batch, const Bound& positions) const;
  void move_parts(Kernel kernel, const Bound& into, const Bound& from) const;
  TransformerBuffers buffers(const Program& program, const Event& event,
                             std::span<const Bound> operands, const StepValues& values);
  void forward(const Program& program, const Event& event, std::span<const Bound> operands,
               const StepValues& values);
  void backward(const Program& program, const Event& event, std::span<const Bound> operands,
                const StepValues& values);
  void complete_pass(const Program& program, const Event& event, std::span<const Bound> operands,
                     const StepValues& values);
  void count_routed(const Event& event, const Bound& sent, const Bound& received);
  void update(const Program& program, const Event& event, std::span<const Bound> operands,
              const StepValues& values) const;

  const Deck& deck_;
  const Context& context_;
  std::unique_ptr<TokenSource> tokens_;
  TransformerDims dims_;
  std::vector<std::int64_t> expert_rows_;  // [layers][experts]
  std::vector<std::int64_t> arrived_rows_;
  std::map<int, EnumArray<Routed, std::vector<std::int64_t>>> routed_parts_;  // by module
};

}  // namespace shardmark
