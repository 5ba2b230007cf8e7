// SPDX-License-Identifier: Apache-2.0
// What the parts of a DeepSpeed schedule share: the program that is being written, the writers, and
// the settings that most parts ask for. Each stage makes one context and gives it to its parts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <core/plan/deepspeed/module_classes.hpp>
#include <core/plan/plan.hpp>
#include <core/plan/write/schedule_part.hpp>

namespace shardmark {

// The names under which the recordings of DeepSpeed distinguish tensors of one category.
namespace recorded {
inline constexpr std::string_view params = "params", grads = "grads";
inline constexpr std::string_view partition_gradients = "partition_gradients";
inline constexpr std::string_view staged_momentum = "staged_momentum";
inline constexpr std::string_view muon_gathers = "muon_gathers";
inline constexpr std::string_view full_fp32_gradients = "full_fp32_gradients";
inline constexpr std::string_view param_partitions = "param_partitions";
inline constexpr std::string_view secondary_partitions = "secondary_partitions";
inline constexpr std::string_view grad_partitions = "grad_partitions";
}  // namespace recorded

/// The program that is being written, its settings and its writers.
struct DeepSpeedContext : ScheduleContext {
  DeepSpeedContext(Program& p, const Deck& d, const Profile& machine)
      : ScheduleContext(p, machine),
        deck(d),
        profile(machine),
        knobs(d.zero.knobs),
        precision(d.zero.precision) {
    if (autocasts()) lower = params_of_classes(p.model, precision.autocast.safe_classes);
  }

  int world() const { return program.partition_ranks(); }
  int stage() const { return program.stage; }
  /// Whether this rank counts a parameter in norms.
  bool counts(int param) const { return counts_all() || program.model.params[param].slice.cuts(); }
  bool counts_all() const { return program.counts_whole; }
  bool folds() const { return program.folds(); }
  /// Whether norms and overflow are shared beside the partition's group.
  bool divided() const { return !program.norm_groups.empty(); }
  int params() const { return static_cast<int>(program.model.params.size()); }
  /// For each parameter a slot that is not declared yet.
  std::vector<int> no_slots() const {
    return std::vector<int>(program.model.params.size(), no_slot);
  }
  const Param& param(int id) const { return program.model.params[id]; }
  std::int64_t elems(int param) const { return program.model.params[param].elems; }
  const std::string& name(int param) const { return program.model.params[param].name; }
  Optimizer optimizer() const { return deck.zero.optimizer.type; }
  /// The optimizer of a group: AdamW updates what are no matrices of Muon.
  Optimizer optimizer_of(bool matrices) const {
    return is_muon(optimizer()) && !matrices ? Optimizer::adamw : optimizer();
  }

  /// Whether the model's type has 16 bits, so that the master is apart from the parameters.
  bool has_master() const { return precision.model != Dtype::fp32; }
  bool ordered() const { return program.reductions == Reductions::ordered; }
  /// Whether sums of gradients over ranks are averages.
  bool averages() const { return !knobs.sums_gradients; }
  /// Whether optimizer states lie on the host.
  bool offloads() const { return program.stage > 0 && deck.zero.offload_optimizer.enabled; }
  bool pins_memory() const { return deck.zero.offload_optimizer.pin_memory; }

  /// Whether torch_autocast decides in which types parameters and gradients are sent. The engine,
  /// which reduces the gradients of stage 0, does not ask it.
  bool autocasts() const { return program.stage > 0 && precision.autocast.dtype.has_value(); }
  /// The type in which a parameter's gradient is sent, and that in which the parameter is gathered.
  Dtype sent_as(int param) const { return autocasts() ? gathered_as(param) : precision.comm; }
  Dtype gathered_as(int param) const {
    return autocasts() && lower[param] ? *precision.autocast.dtype : precision.model;
  }
  /// The types in which gradients are sent, those of 16 bits first, as DeepSpeed sorts them.
  std::vector<Dtype> sent_types() const {
    if (!autocasts()) return {precision.comm};
    std::vector<Dtype> types;
    for (Dtype type : {*precision.autocast.dtype, precision.model})
      for (int id = 0; id < params(); ++id)
        if (this->param(id).updated() && sent_as(id) == type) {
          types.push_back(type);
          break;
        }
    return types;
  }

  /// Declares `slot` on the device if that has not been done yet, and returns it.
  int declare_once(int& slot, const std::string& slot_name, Category category, Dtype dtype,
                   std::int64_t count, std::string_view kind = {}) {
    if (slot == no_slot) slot = writer.slot(slot_name, category, dtype, count, Tier::device, kind);
    return slot;
  }
  int host_slot(const std::string& slot_name, Category category, Dtype dtype, std::int64_t count,
                bool pinned = false, std::string_view kind = {}) {
    return writer.slot(slot_name, category, dtype, count, Tier::host, kind, pinned);
  }

  /// Acquires what PyTorch's Adagrad made of the 16-bit parameters, before DeepSpeed gave it the
  /// master instead: it makes other states of that, and the first ones stay. DeepSpeed's classes
  /// for stages 1 to 3, but for BF16_Optimizer, make Adagrad anew.
  void keep_first_sums() {
    if (optimizer() != Optimizer::adagrad) return;
    std::int64_t updated = 0;
    for (const Param& p : program.model.params) updated += p.updated() ? p.elems : 0;
    writer.acquire(writer.slot("variance_of_param", Category::variance, precision.model, updated));
  }

  const Deck& deck;
  const Profile& profile;
  const ZeroKnobs& knobs;
  const PrecisionSpec& precision;
  std::vector<bool> lower;  // by parameter: whether torch_autocast sends it in its type
};

using DeepSpeedPart = SchedulePart<DeepSpeedContext>;

}  // namespace shardmark
