// SPDX-License-Identifier: Apache-2.0
// The optimizers: which states each keeps, and which kernel updates them. Memory, checkpoints,
// hashes and the bytes that an update streams follow from this table.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>

#include <core/enum_array.hpp>
#include <core/plan/deck/types.hpp>

namespace shardmark {

/// `optimizer.type` of a DeepSpeed config, as its parameters and the place of the states decide it.
enum class Optimizer : std::uint8_t {
  adam,
  adamw,
  lion,
  host_lion,
  sgd,
  momentum_sgd,
  adagrad,
  muon,  // its Newton-Schulz iterations run on Gram matrices
  standard_muon
};
template<>
inline constexpr std::size_t enum_size<Optimizer> = 9;

namespace optimizer_states {
inline constexpr State adam[] = {State::momentum, State::variance};
inline constexpr State momentum[] = {State::momentum};
inline constexpr State variance[] = {State::variance};
}  // namespace optimizer_states

/// What distinguishes the optimizers for code that is common to them.
struct OptimizerTraits {
  std::string_view name;  // as a config spells the type; several rows may share it
  Kernel kernel = Kernel::adamw;
  std::span<const State> moments = {};  // that the kernel updates, in the order of its operands
  // States that DeepSpeed allocates, and moves with the others, but never uses.
  std::span<const State> idle = {};
  bool decoupled_decay = false;  // weights decay by themselves, not through the gradients
  bool in_pytorch = true;        // torch.optim has it too
  bool counts_steps = true;      // PyTorch keeps a count of steps per parameter
};
inline constexpr auto optimizer_traits = enum_table<Optimizer>(
    OptimizerTraits{.name = "Adam", .moments = optimizer_states::adam},
    OptimizerTraits{.name = "AdamW", .moments = optimizer_states::adam, .decoupled_decay = true},
    OptimizerTraits{.name = "Lion",
                    .kernel = Kernel::lion,
                    .moments = optimizer_states::momentum,
                    .decoupled_decay = true,
                    .in_pytorch = false},
    // DeepSpeedCPULion allocates exp_avg_sq as DeepSpeedCPUAdam does.
    OptimizerTraits{.name = "Lion",
                    .kernel = Kernel::lion,
                    .moments = optimizer_states::momentum,
                    .idle = optimizer_states::variance,
                    .decoupled_decay = true,
                    .in_pytorch = false},
    OptimizerTraits{.name = "SGD", .kernel = Kernel::sgd, .counts_steps = false},
    OptimizerTraits{.name = "SGD",
                    .kernel = Kernel::sgd,
                    .moments = optimizer_states::momentum,
                    .counts_steps = false},
    OptimizerTraits{
        .name = "Adagrad", .kernel = Kernel::adagrad, .moments = optimizer_states::variance},
    // The kernel is that of the hidden matrices, which keep a momentum only; AdamW updates the
    // rest.
    OptimizerTraits{.name = "Muon",
                    .kernel = Kernel::muon,
                    .moments = optimizer_states::adam,
                    .decoupled_decay = true},
    OptimizerTraits{.name = "Muon",
                    .kernel = Kernel::muon,
                    .moments = optimizer_states::adam,
                    .decoupled_decay = true});
/// The row of the table above.
constexpr const OptimizerTraits& traits(Optimizer o) {
  return optimizer_traits[o];
}
constexpr std::string_view to_string(Optimizer o) {
  return traits(o).name;
}

/// Whether the states of one optimizer are those of the other, so that training can change over.
constexpr bool share_states(Optimizer a, Optimizer b) {
  return traits(a).kernel == traits(b).kernel &&
         std::ranges::equal(traits(a).moments, traits(b).moments);
}

/// Whether it updates some parameters as matrices, and the others by AdamW.
constexpr bool is_muon(Optimizer o) {
  return traits(o).kernel == Kernel::muon;
}

/// Whether `optimizer` keeps `state` among the moments that its kernel updates.
constexpr bool has_moment(Optimizer optimizer, State state) {
  const auto moments = traits(optimizer).moments;
  return std::ranges::find(moments, state) != moments.end();
}

/// The type in which Newton-Schulz iterations run: DeepSpeed's methods `gram` and `standard` differ
/// in it too.
constexpr Dtype newton_schulz_type(Optimizer muon) {
  return muon == Optimizer::muon ? Dtype::fp16 : Dtype::bf16;
}

/// Whether the iterations run on the Gram matrix instead of the matrix itself: on rectangular
/// matrices, where this is less work.
constexpr bool iterates_on_gram(Optimizer muon, std::int64_t rows, std::int64_t cols) {
  return muon == Optimizer::muon && rows != cols;
}

inline constexpr int newton_schulz_steps = 5;
/// The step before which the method `gram` makes its Gram matrix anew.
inline constexpr int gram_restart = 2;

}  // namespace shardmark
