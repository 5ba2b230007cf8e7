// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include <fmt/core.h>

#include <io/deck/deck_keys.hpp>
#include <miniapp/tools/advise/knobs.hpp>

namespace shardmark {
namespace {

std::string on_or_off(bool on) {
  return on ? "on" : "off";
}
std::string true_or_false(bool value) {
  return value ? "true" : "false";
}
std::string device_of(const OffloadSpec& offload) {
  return !offload.enabled ? "none" : offload.nvme ? "nvme" : "cpu";
}
std::string mesh_of(const TorchSpec& torch) {
  if (torch.mesh_shard == 0) return "[world]";
  if (torch.mesh_replicate == 1) return fmt::format("[{}]", torch.mesh_shard);
  return fmt::format("[{}, {}]", torch.mesh_replicate, torch.mesh_shard);
}
std::string reshard_of(const TorchSpec& torch) {
  if (torch.reshard_ranks > 0) return std::to_string(torch.reshard_ranks);
  return torch.reshard_after_forward ? true_or_false(*torch.reshard_after_forward) : "null";
}

// The value that the record of the key finds in a deck.
std::string recorded(const Knob& knob, const Deck& deck) {
  const Json value = key_at(knob.key)->member.get(deck);
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// A knob that is called by its key alone.
constexpr Knob by_record(std::string_view key, std::string_view brief) {
  return {key, key.substr(key.rfind('.') + 1), brief, nullptr};
}

// clang-format off
constexpr std::array all_knobs{
    by_record("run.schedule", ""),
    by_record("deepspeed.zero_optimization.stage", ""),
    Knob{"deepspeed.train_batch_size", "global batch", "",
         [](const Deck&, const Batch& b) { return std::to_string(b.global); }},
    Knob{"deepspeed.train_micro_batch_size_per_gpu", "micro-batch", "",
         [](const Deck&, const Batch& b) { return std::to_string(b.micro); }},
    Knob{"deepspeed.gradient_accumulation_steps", "accumulation steps", "",
         [](const Deck&, const Batch& b) { return std::to_string(b.accumulation); }},
    Knob{"hf.per_device_train_batch_size", "the trainer's per_device_train_batch_size", "",
         [](const Deck&, const Batch& b) { return std::to_string(b.micro); }},
    Knob{"hf.gradient_accumulation_steps", "the trainer's gradient_accumulation_steps", "",
         [](const Deck&, const Batch& b) { return std::to_string(b.accumulation); }},
    Knob{"run.activation_checkpointing", "recomputation", "",
         [](const Deck& d, const Batch&) { return on_or_off(d.run.activation_checkpointing); }},
    Knob{"hf.activation_checkpointing", "the trainer's activation_checkpointing", "",
         [](const Deck& d, const Batch&) { return on_or_off(d.run.activation_checkpointing); }},
    Knob{"hf.gradient_checkpointing", "the trainer's gradient_checkpointing", "",
         [](const Deck& d, const Batch&) { return on_or_off(d.run.activation_checkpointing); }},
    Knob{"deepspeed.zero_optimization.offload_optimizer", "offload_optimizer", "optimizer on",
         [](const Deck& d, const Batch&) { return device_of(d.zero.offload_optimizer); }},
    Knob{"deepspeed.zero_optimization.offload_param", "offload_param", "parameters on",
         [](const Deck& d, const Batch&) { return device_of(d.zero.offload_param); }},
    by_record("deepspeed.zero_optimization.reduce_bucket_size", "bucket"),
    Knob{"deepspeed.zero_optimization.overlap_comm", "overlap_comm", "overlap_comm",
         [](const Deck& d, const Batch&) { return true_or_false(d.zero.knobs.overlap_comm); }},
    by_record("deepspeed.zero_optimization.reduce_scatter", "reduce_scatter"),
    by_record("deepspeed.zero_optimization.stage3_prefetch_bucket_size", "prefetch"),
    by_record("deepspeed.zero_optimization.stage3_param_persistence_threshold", "persistence"),
    by_record("deepspeed.zero_optimization.stage3_max_reuse_distance", "reuse"),
    by_record("deepspeed.zero_optimization.zero_hpz_partition_size", "hpZ"),
    Knob{"torch.offload_policy", "offload_policy", "all on",
         [](const Deck& d, const Batch&) { return std::string(d.torch.cpu_offload ? "cpu" : "none"); }},
    Knob{"torch.bucket_cap_mb", "bucket_cap_mb", "bucket_cap_mb",
         [](const Deck& d, const Batch&) { return fmt::format("{}", d.torch.bucket_cap_mb.value_or(25)); }},
    by_record("run.shard_size", "shard_size"),
    Knob{"torch.mesh", "mesh", "mesh",
         [](const Deck& d, const Batch&) { return mesh_of(d.torch); }},
    Knob{"torch.reshard_after_forward", "reshard_after_forward", "reshard",
         [](const Deck& d, const Batch&) { return reshard_of(d.torch); }},
    Knob{"torch.set_modules_to_forward_prefetch", "set_modules_to_forward_prefetch",
         "forward prefetch",
         [](const Deck& d, const Batch&) { return std::to_string(d.torch.forward_prefetch); }},
    Knob{"torch.set_modules_to_backward_prefetch", "set_modules_to_backward_prefetch",
         "backward prefetch",
         [](const Deck& d, const Batch&) { return std::to_string(d.torch.backward_prefetch); }},
};
// clang-format on

}  // namespace

bool is_knob(std::string_view key) {
  return std::any_of(all_knobs.begin(), all_knobs.end(),
                     [&](const Knob& knob) { return knob.key == key; });
}

bool is_set(const DeckChanges& changes, std::string_view key) {
  return std::any_of(changes.begin(), changes.end(), [&](const auto& c) { return c.first == key; });
}

std::span<const Knob> knobs() {
  return all_knobs;
}

const Knob& knob_named(std::string_view key) {
  return *std::find_if(all_knobs.begin(), all_knobs.end(),
                       [&](const Knob& knob) { return knob.key == key; });
}

std::vector<std::string> knob_values(const Deck& deck, const Batch& batch) {
  std::vector<std::string> values;
  for (const Knob& knob : all_knobs)
    values.push_back(knob.value != nullptr ? knob.value(deck, batch) : recorded(knob, deck));
  return values;
}

std::vector<KnobChange> knob_changes(const DeckChanges& changes,
                                     const std::vector<std::string>& from,
                                     const std::vector<std::string>& to) {
  std::vector<KnobChange> found;
  for (std::size_t i = 0; i < std::min(from.size(), to.size()); ++i)
    if (from[i] != to[i] && is_set(changes, all_knobs[i].key))
      found.push_back({all_knobs[i].key, all_knobs[i].name, from[i], to[i]});
  return found;
}

}  // namespace shardmark
