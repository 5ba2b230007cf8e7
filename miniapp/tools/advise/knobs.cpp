// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/core.h>

#include <io/deck/deck_keys.hpp>
#include <io/deck/deck_reader.hpp>
#include <io/json/json_source.hpp>
#include <miniapp/tools/advise/knobs.hpp>

namespace shardmark {

namespace {

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

using Value = std::string (*)(const Deck&, const Batch&);

// A knob by the member that its key has in a deck. It is called by its key alone if `name` is
// empty.
template<auto... Path>
Knob knob(std::string_view brief, std::string_view name = {}, Value value = nullptr) {
  const std::string_view key = key_path<Path...>();
  return {key, name.empty() ? key.substr(key.rfind('.') + 1) : name, brief, value};
}

// A degree, by its place among the axes.
template<std::size_t Axis>
Knob degree(std::string_view brief, std::string_view name) {
  return {ParallelSpec().axes()[Axis].key, name, brief, [](const Deck& d, const Batch&) {
            return std::to_string(d.zero.parallel.axes()[Axis].ranks);
          }};
}

std::string global_batch(const Deck&, const Batch& b) {
  return std::to_string(b.global);
}
std::string micro_batch(const Deck&, const Batch& b) {
  return std::to_string(b.micro);
}
std::string accumulation(const Deck&, const Batch& b) {
  return std::to_string(b.accumulation);
}
std::string recomputation(const Deck& d, const Batch&) {
  return d.run.activation_checkpointing ? "on" : "off";
}

Schedule own_schedule(Framework framework) {
  return framework == Framework::torch ? Schedule::torch : Schedule::deepspeed;
}

bool is_filled_object(const Json& deck, const char* section) {
  const auto it = deck.find(section);
  return it != deck.end() && it->is_object() && !it->empty();
}

}  // namespace

// clang-format off
const std::vector<Knob>& knobs() {
  using K = ZeroKnobs;
  using T = TorchSpec;
  static const std::vector<Knob> all{
      knob<&RunSpec::schedule>(""),
      knob<&ZeroSpec::stage>(""),
      degree<0>("tensors over", "ranks per divided tensor"),
      degree<1>("samples over", "ranks per divided sample"),
      degree<2>("experts over", "ranks per set of experts"),
      knob<&ZeroSpec::train_batch_size>("", "global batch", global_batch),
      knob<&ZeroSpec::micro_batch_size>("", "micro-batch", micro_batch),
      knob<&ZeroSpec::accumulation_steps>("", "accumulation steps", accumulation),
      {"hf.per_device_train_batch_size", "the trainer's per_device_train_batch_size", "",
       micro_batch},
      {"hf.gradient_accumulation_steps", "the trainer's gradient_accumulation_steps", "",
       accumulation},
      {"run.activation_checkpointing", "recomputation", "", recomputation},
      {"hf.activation_checkpointing", "the trainer's activation_checkpointing", "", recomputation},
      {"hf.gradient_checkpointing", "the trainer's gradient_checkpointing", "", recomputation},
      knob<&ZeroSpec::offload_optimizer>("optimizer on", "offload_optimizer",
           [](const Deck& d, const Batch&) { return device_of(d.zero.offload_optimizer); }),
      knob<&ZeroSpec::offload_param>("parameters on", "offload_param",
           [](const Deck& d, const Batch&) { return device_of(d.zero.offload_param); }),
      knob<&K::reduce_bucket_size>("bucket"),
      knob<&K::overlap_comm>("overlap_comm"),
      knob<&K::reduce_scatter>("reduce_scatter"),
      knob<&K::prefetch_bucket_size>("prefetch"),
      knob<&K::param_persistence_threshold>("persistence"),
      knob<&K::max_reuse_distance>("reuse"),
      knob<&K::hpz_partition_size>("hpZ"),
      {"torch.offload_policy", "offload_policy", "all on",
       [](const Deck& d, const Batch&) { return std::string(d.torch.cpu_offload ? "cpu" : "none"); }},
      knob<&T::bucket_cap_mb>("bucket_cap_mb", "bucket_cap_mb",
           [](const Deck& d, const Batch&) { return fmt::format("{}", d.torch.bucket_cap_mb.value_or(25)); }),
      knob<&RunSpec::shard_size>("shard_size"),
      {"torch.mesh", "mesh", "mesh", [](const Deck& d, const Batch&) { return mesh_of(d.torch); }},
      {"torch.reshard_after_forward", "reshard_after_forward", "reshard",
       [](const Deck& d, const Batch&) { return reshard_of(d.torch); }},
      knob<&T::forward_prefetch>("forward prefetch"),
      knob<&T::backward_prefetch>("backward prefetch"),
  };
  return all;
}
// clang-format on

bool is_set(const DeckChanges& changes, std::string_view key) {
  return std::ranges::any_of(changes, [&](const auto& c) { return c.first == key; });
}

const Knob* knob_named(std::string_view key) {
  const auto found = std::ranges::find(knobs(), key, &Knob::key);
  return found == knobs().end() ? nullptr : &*found;
}

std::vector<std::string> knob_values(const Deck& deck, const Batch& batch) {
  std::vector<std::string> values;
  for (const Knob& knob : knobs())
    values.push_back(knob.value != nullptr ? knob.value(deck, batch) : recorded(knob, deck));
  return values;
}

std::vector<KnobChange> knob_changes(const DeckChanges& changes,
                                     const std::vector<std::string>& from,
                                     const std::vector<std::string>& to) {
  std::vector<KnobChange> found;
  for (std::size_t i = 0; i < std::min(from.size(), to.size()); ++i)
    if (from[i] != to[i] && is_set(changes, knobs()[i].key))
      found.push_back({knobs()[i].key, knobs()[i].name, from[i], to[i]});
  return found;
}

std::vector<Schedule> schedules_of(Framework framework) {
  if (framework == Framework::shardmark)
    return {all_values<Schedule>.begin(), all_values<Schedule>.end()};
  return {own_schedule(framework)};
}

Framework framework_of(std::string_view name, const std::string& deck,
                       const std::vector<std::string>& sets) {
  for (const Framework f : all_values<Framework>)
    if (traits(f).name == name) return f;
  const Json text = Json::parse(deck_text(deck, sets));
  const bool follows_torch =
      text.value(Json::json_pointer("/run/schedule"), Json()) == traits(Schedule::torch).name;
  if (follows_torch || is_filled_object(text, "torch")) return Framework::torch;
  return is_filled_object(text, "deepspeed") ? Framework::deepspeed : Framework::shardmark;
}

DeckChanges changes_for(Framework framework) {
  if (framework == Framework::shardmark) return {};
  return {{key_path<&RunSpec::schedule>(), std::string(to_string(own_schedule(framework)))}};
}

}  // namespace shardmark
