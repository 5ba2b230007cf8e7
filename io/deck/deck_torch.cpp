// SPDX-License-Identifier: Apache-2.0
// The section `torch` of a deck: the arguments that a training script gives to PyTorch's
// DistributedDataParallel, ZeroRedundancyOptimizer and fully_shard, under PyTorch's names.
#include <algorithm>
#include <limits>

#include <io/deck/deck_keys.hpp>
#include <io/deck/deck_sections.hpp>

namespace shardmark {
namespace {

constexpr IntRange rank_counts{1, std::numeric_limits<int>::max()};

std::string read_name(const KeyReader& reader, const char* key, const Json& value) {
  if (!value.is_string()) reader.refuse(key, value, "must be the name of a module, a string");
  return value.get<std::string>();
}

std::vector<std::string> read_names(const KeyReader& reader, const char* key, const Json& value) {
  if (!value.is_array()) reader.refuse(key, value, "must be an array of names");
  std::vector<std::string> names;
  for (const Json& name : value) names.push_back(read_name(reader, key, name));
  return names;
}

// A call of fully_shard is given one module or a list of modules.
void read_calls(KeyReader& reader, TorchSpec& torch) {
  constexpr const char* key = "fully_shard";
  const Json* calls = reader.any(key);
  if (calls == nullptr) return;
  if (!calls->is_array() || calls->empty())
    reader.refuse(key, *calls,
                  "must be an array with one entry per call, a module's name or an array of names; "
                  "the last one is \"\", the root");
  for (const Json& call : *calls) {
    torch.fully_shard.push_back(call.is_array() ? read_names(reader, key, call)
                                                : std::vector{read_name(reader, key, call)});
    if (torch.fully_shard.back().empty()) reader.refuse(key, call, "must name at least one module");
  }
}

void read_reshard(KeyReader& reader, TorchSpec& torch) {
  const Json* value = reader.any("reshard_after_forward");
  if (value == nullptr || value->is_null()) return;
  if (value->is_boolean()) {
    torch.reshard_after_forward = value->get<bool>();
    return;
  }
  const auto ranks = as_integer(*value);
  if (!ranks || *ranks < rank_counts.min || *ranks > rank_counts.max)
    reader.refuse("reshard_after_forward", *value,
                  "must be true, false, null (PyTorch's default: true for all but the "
                  "root) or a number of ranks, at least 1");
  torch.reshard_ranks = *ranks;
}

void read_mesh(KeyReader& reader, TorchSpec& torch) {
  const Json* mesh = reader.any("mesh");
  if (mesh == nullptr) return;
  std::vector<std::int64_t> sizes;
  for (const Json& size : mesh->is_array() ? *mesh : Json::array())
    sizes.push_back(as_integer(size).value_or(0));
  const bool valid = (sizes.size() == 1 || sizes.size() == 2) &&
                     std::all_of(sizes.begin(), sizes.end(), [](std::int64_t s) {
                       return s >= rank_counts.min && s <= rank_counts.max;
                     });
  if (!valid)
    reader.refuse("mesh", *mesh,
                  "must be an array of one or two numbers of ranks: [shard] or "
                  "[replicate, shard]");
  torch.mesh_shard = sizes.back();
  torch.mesh_replicate = sizes.size() == 2 ? sizes.front() : 1;
}

void read_dtype(KeyReader& reader, const char* name, std::optional<Dtype>& dtype) {
  const Json* value = reader.any(name);
  if (value == nullptr || value->is_null()) return;
  Dtype read = Dtype::fp32;
  reader.choice(name, read, {Dtype::fp32, Dtype::bf16, Dtype::fp16});
  dtype = read;
}

void read_mp_policy(KeyReader& reader, Deck& deck) {
  reader.section("mp_policy", [&](KeyReader& policy) {
    policy.read(deck_keys("torch.mp_policy"), deck);
    read_dtype(policy, "param_dtype", deck.torch.param_dtype);
    read_dtype(policy, "reduce_dtype", deck.torch.reduce_dtype);
    for (const char* name : {"output_dtype", "cast_forward_inputs"})
      if (const Json* unused = policy.any(name))
        policy.origin().note(
            FindingKind::no_effect, policy.key(name),
            brief(*unused) + ": ShardMark's models compute in param_dtype, and the loss in fp32");
  });
}

void read_offload_policy(KeyReader& reader, Deck& deck) {
  const Json* value = reader.any("offload_policy");
  if (value == nullptr || value->is_null()) return;
  reader.section("offload_policy",
                 [&](KeyReader& policy) { policy.read(deck_keys("torch.offload_policy"), deck); });
  deck.torch.cpu_offload = true;
}

void read_stays_sharded(KeyReader& reader, TorchSpec& torch) {
  constexpr const char* key = "set_unshard_in_backward";
  const Json* value = reader.any(key);
  if (value == nullptr) return;
  if (!value->is_object())
    reader.refuse(key, *value, "must be an object: the name of a module, then true or false");
  for (const auto& [name, unshards] : value->items()) {
    if (!unshards.is_boolean())
      reader.refuse(join_key(key, name), unshards, "must be true or false");
    if (!unshards.get<bool>()) torch.stays_sharded_in_backward.push_back(name);
  }
}

}  // namespace

void read_torch(KeyReader reader, Deck& deck) {
  TorchSpec& torch = deck.torch;
  reader.read(deck_keys("torch"), deck);
  read_calls(reader, torch);
  read_reshard(reader, torch);
  read_mesh(reader, torch);
  read_mp_policy(reader, deck);
  read_offload_policy(reader, deck);
  read_stays_sharded(reader, torch);
  if (const Json* frozen = reader.any("frozen"))
    torch.frozen = read_names(reader, "frozen", *frozen);
  reader.finish();
}

// PyTorch keeps parameters, sums of gradients and optimizer states in fp32. Modules compute in
// mp_policy.param_dtype, for which deepspeed.bf16 is another spelling.
void apply_torch(Deck& deck, Origin& origin) {
  if (!traits(deck.run.schedule).follows_torch) return;
  PrecisionSpec& precision = deck.zero.precision;
  if (precision.model == Dtype::fp16)
    origin.refuse("deepspeed.fp16.enabled", true,
                  "the schedule \"torch\" has no loss scaling: remove the section, or give "
                  "torch.mp_policy {\"param_dtype\": \"fp16\"}");
  if (precision.model == Dtype::bf16) {
    if (deck.torch.param_dtype && *deck.torch.param_dtype != Dtype::bf16)
      origin.refuse("torch.mp_policy.param_dtype", std::string(to_string(*deck.torch.param_dtype)),
                    "contradicts deepspeed.bf16.enabled: remove one of the two");
    deck.torch.param_dtype = Dtype::bf16;
  }
  precision = PrecisionSpec{};
  precision.compute = deck.torch.param_dtype;
}

}  // namespace shardmark
