// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <core/plan/mesh/mesh.hpp>
#include <io/deck/deck_keys.hpp>
#include <miniapp/tools/advise/candidates.hpp>

namespace shardmark {
namespace {

constexpr std::size_t most_micro_batches_tried = 8;
constexpr int most_hpz_nodes = 2;
constexpr std::string_view nvme_folder = "nvme";

// The folder of the deck's own files, where it has any.
std::string offload_device(const OffloadSpec& deck, bool nvme) {
  if (!nvme) return std::string(offload_to_host);
  const std::string folder =
      deck.nvme_path.empty()
          ? std::string(nvme_folder)
          : std::filesystem::absolute(deck.nvme_path).lexically_normal().string();
  return nlohmann::json{{"device", "nvme"}, {"nvme_path", folder}}.dump();
}

// The kind of the deck; empty: a mixture that is none of them.
std::optional<Offload> kind_of(const ZeroSpec& zero) {
  const OffloadSpec &optimizer = zero.offload_optimizer, &params = zero.offload_param;
  if (params.enabled && optimizer.enabled && params.nvme == optimizer.nvme)
    return params.nvme ? Offload::all_nvme : Offload::all;
  if (params.enabled) return std::nullopt;
  if (!optimizer.enabled) return Offload::none;
  return optimizer.nvme ? Offload::optimizer_nvme : Offload::optimizer;
}

// Nothing for the kind of the deck itself, whose own settings stay.
void add_offload(DeckChanges& changes, const Deck& deck, Schedule schedule, Offload kind,
                 const CandidateSpace& space) {
  const bool torch = traits(schedule).follows_torch;
  if (torch && kind != Offload::none)
    changes.emplace_back("torch.offload_policy", R"({"pin_memory": true})");
  else if (torch && deck.torch.cpu_offload)
    changes.emplace_back("torch.offload_policy", "null");
  for (const std::string& key : space.deprecated_offload) changes.emplace_back(key, "null");
  if (!torch && space.deprecated_offload.empty() && kind == kind_of(deck.zero)) return;
  const bool optimizer = !torch && kind != Offload::none;
  const bool params = !torch && (kind == Offload::all || kind == Offload::all_nvme);
  const bool nvme = kind == Offload::optimizer_nvme || kind == Offload::all_nvme;
  const std::string off(no_offload);
  if (optimizer || deck.zero.offload_optimizer.enabled)
    changes.emplace_back(key_path<&ZeroSpec::offload_optimizer>(),
                         optimizer ? offload_device(deck.zero.offload_optimizer, nvme) : off);
  if (params || deck.zero.offload_param.enabled)
    changes.emplace_back(key_path<&ZeroSpec::offload_param>(),
                         params ? offload_device(deck.zero.offload_param, nvme) : off);
}

// The deck's kind of recomputation stays.
void add_recomputation(DeckChanges& changes, const Deck& deck, const CandidateSpace& space,
                       bool again) {
  for (const std::string& key : space.recomputation_keys) {
    const bool reentrant = again && deck.run.reentrant && key.starts_with("run.");
    changes.emplace_back(key, reentrant ? "reentrant" : again ? "true" : "false");
  }
}

std::int64_t sequences_of_a_part(const CandidateSpace& space) {
  return space.global_batch / data_parts(space.parallel, space.ranks);
}

// Hugging Face's trainer refuses a config whose batch is not its own.
void add_batch(DeckChanges& changes, const CandidateSpace& space, std::int64_t micro) {
  const Batch batch{space.global_batch, micro, sequences_of_a_part(space) / micro};
  const DeckChanges keys = batch_changes(batch, space.parallel);
  changes.insert(changes.end(), keys.begin(), keys.end());
  if (!space.has_trainer) return;
  changes.emplace_back("hf.per_device_train_batch_size", std::to_string(batch.micro));
  changes.emplace_back("hf.gradient_accumulation_steps", std::to_string(batch.accumulation));
}

// Whole nodes, 1, 2, 4, …, that hold a copy of the states and divide the world.
std::vector<int> shards_of_nodes(const CandidateSpace& space) {
  std::vector<int> ranks;
  if (space.ranks_per_node <= 1) return ranks;
  for (int n = space.ranks_per_node; n < space.ranks; n *= 2)
    if (space.ranks % n == 0) ranks.push_back(n);
  return ranks;
}

}  // namespace

// fully_shard's CPUOffloadPolicy moves parameters and optimizer states together.
bool has(Offload kind, Schedule schedule, int stage, const CandidateSpace& space) {
  if (traits(schedule).follows_torch)
    return kind == Offload::none || (kind == Offload::all && space.has_host_memory && stage >= 2);
  if (!traits(schedule).follows_deepspeed) return kind == Offload::none;
  switch (kind) {
    case Offload::none: return true;
    case Offload::optimizer: return space.has_host_memory && stage > 0;
    case Offload::all: return space.has_host_memory && stage == 3;
    case Offload::optimizer_nvme:
    case Offload::all_nvme: return space.has_host_memory && space.has_disk && stage == 3;
  }
  return false;
}

std::vector<std::string> sets_of(const DeckChanges& changes) {
  std::vector<std::string> sets;
  for (const auto& [key, value] : changes) sets.push_back(key + "=" + value);
  return sets;
}

nlohmann::ordered_json value_json(const std::string& value) {
  nlohmann::ordered_json parsed = nlohmann::ordered_json::parse(value, nullptr, false);
  return parsed.is_discarded() ? nlohmann::ordered_json(value) : parsed;
}

nlohmann::ordered_json changes_json(const DeckChanges& changes) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& [key, value] : changes) json[key] = value_json(value);
  return json;
}

std::int64_t data_parts(const ParallelSpec& parallel, int ranks) {
  return std::max(Mesh(ranks, 0, parallel).data_parts(), 1);
}

DeckChanges batch_changes(const Batch& batch, const ParallelSpec& parallel) {
  const auto change = [](const std::string& key, std::int64_t value) {
    return std::pair(key, std::to_string(value));
  };
  return {change(key_path<&ZeroSpec::train_batch_size>(), parallel.train_batch_size(batch.global)),
          change(key_path<&ZeroSpec::micro_batch_size>(), batch.micro),
          change(key_path<&ZeroSpec::accumulation_steps>(), batch.accumulation)};
}

std::vector<std::int64_t> micro_batches(std::int64_t sequences_per_rank) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t m = 1; m <= sequences_per_rank && m <= 1024; ++m)
    if (sequences_per_rank % m == 0) divisors.push_back(m);
  // If there are many divisors, those closest to powers of two are tried.
  if (divisors.size() <= most_micro_batches_tried) return divisors;
  std::vector<std::int64_t> chosen;
  for (std::int64_t target = 1; chosen.size() < most_micro_batches_tried; target *= 2) {
    const auto next = std::lower_bound(divisors.begin(), divisors.end(), target);
    if (next == divisors.end()) break;
    if (chosen.empty() || *next != chosen.back()) chosen.push_back(*next);
  }
  return chosen;
}

std::vector<std::int64_t> micro_batches_with(const CandidateSpace& space) {
  const std::int64_t per_rank = sequences_of_a_part(space);
  std::vector<std::int64_t> all = micro_batches(per_rank);
  const std::int64_t own = space.own_micro;
  if (own > 0 && per_rank % own == 0 && std::find(all.begin(), all.end(), own) == all.end())
    all.push_back(own);
  return all;
}

// Beside experts, AutoTP divides a mixture by this preset alone, and nothing by it otherwise.
DeckChanges degree_changes(const ParallelSpec& from, const ParallelSpec& to) {
  const auto folds = [](const ParallelSpec& p) { return p.tensor > 1 && p.expert > 1; };
  const auto [tensors, samples, experts] = to.axes();
  DeckChanges changes;
  const auto set = [&](std::string_view key, const std::string& value) {
    changes.emplace_back(key, value);
  };
  if (to.tensor != from.tensor) set(tensors.key, std::to_string(to.tensor));
  if (folds(to) != folds(from))
    set("deepspeed.tensor_parallel.preset_model", folds(to) ? "mixtral" : "null");
  if (to.sequence != from.sequence) set(samples.key, std::to_string(to.sequence));
  if ((to.expert > 1) != (from.expert > 1))
    set("deepspeed.expert_parallel.enabled", to.expert > 1 ? "true" : "false");
  if (to.expert != from.expert && to.expert > 1) set(experts.key, std::to_string(to.expert));
  return changes;
}

DeckChanges changes_of(const Deck& deck, const CandidateSpace& space, const BasicChoice& choice) {
  DeckChanges changes{{key_path<&RunSpec::schedule>(), std::string(to_string(choice.schedule))},
                      {key_path<&ZeroSpec::stage>(), std::to_string(choice.stage)}};
  for (auto& change : degree_changes(deck.zero.parallel, space.parallel))
    changes.push_back(std::move(change));
  add_recomputation(changes, deck, space, choice.recomputes);
  add_batch(changes, space, choice.micro);
  add_offload(changes, deck, choice.schedule, choice.offload, space);
  if (choice.stage == 3 && is_muon(deck.zero.optimizer.type))
    changes.emplace_back(key_path<&ZeroKnobs::reduce_scatter>(), "false");
  return changes;
}

std::vector<DeckChanges> basic_candidates(const Deck& deck, const CandidateSpace& space) {
  const std::vector<bool> recompute = traits(deck.model.family).has_arithmetic
                                          ? std::vector<bool>{false, true}
                                          : std::vector<bool>{deck.run.activation_checkpointing};
  std::vector<DeckChanges> all;
  for (const Schedule schedule : space.schedules)
    for (int stage = 0; stage <= 3; ++stage)
      for (const Offload kind : {Offload::none, Offload::optimizer, Offload::all,
                                 Offload::optimizer_nvme, Offload::all_nvme}) {
        if (!has(kind, schedule, stage, space)) continue;
        for (const std::int64_t micro : micro_batches_with(space))
          for (const bool again : recompute)
            all.push_back(changes_of(deck, space, {schedule, stage, kind, micro, again}));
      }
  return all;
}

std::vector<DeckChanges> refined_candidates(const DeckChanges& basic, Schedule schedule, int stage,
                                            const CandidateSpace& space) {
  std::vector<DeckChanges> all;
  const auto with = [&](const DeckChanges& more) {
    DeckChanges changes = basic;
    changes.insert(changes.end(), more.begin(), more.end());
    all.push_back(std::move(changes));
  };
  const std::vector<int> shards = shards_of_nodes(space);
  if (traits(schedule).takes_shard_size && stage > 0)
    for (const int ranks : shards)
      with({{key_path<&RunSpec::shard_size>(), std::to_string(ranks)}});
  if (traits(schedule).follows_torch && stage < 2)
    for (const char* mb : {"10", "100"}) with({{key_path<&TorchSpec::bucket_cap_mb>(), mb}});
  if (traits(schedule).follows_torch && stage >= 2) {
    for (const char* groups : {"1", "2"})
      with({{key_path<&TorchSpec::forward_prefetch>(), groups},
            {key_path<&TorchSpec::backward_prefetch>(), groups}});
    for (const int ranks : shards) {
      with({{"torch.mesh", fmt::format("[{}, {}]", space.ranks / ranks, ranks)}});
      if (stage == 3) with({{"torch.reshard_after_forward", std::to_string(ranks)}});
    }
  }
  if (!traits(schedule).follows_deepspeed) return all;
  if (stage == 1 || stage == 2)
    for (const char* bucket : {"50000000", "200000000", "500000000"})
      for (const char* overlap : {"false", "true"})
        with({{key_path<&ZeroKnobs::reduce_bucket_size>(), bucket},
              {key_path<&ZeroKnobs::overlap_comm>(), overlap}});
  if (stage != 3) return all;
  // It is not modelled beside divided tensors, samples or experts.
  const bool may_have_hpz = !space.parallel.divides();
  with({{key_path<&ZeroKnobs::max_reuse_distance>(), "0"}});
  for (const char* bucket : {"50000000", "500000000"})
    for (const char* prefetch : {"0", "50000000", "500000000"})
      for (const char* persistent : {"0", "100000", "1000000"}) {
        const DeckChanges sizes{{key_path<&ZeroKnobs::reduce_bucket_size>(), bucket},
                                {key_path<&ZeroKnobs::prefetch_bucket_size>(), prefetch},
                                {key_path<&ZeroKnobs::param_persistence_threshold>(), persistent}};
        with(sizes);
        for (const int ranks : shards)
          if (may_have_hpz && ranks <= most_hpz_nodes * space.ranks_per_node) {
            DeckChanges with_hpz = sizes;
            with_hpz.emplace_back(key_path<&ZeroKnobs::hpz_partition_size>(),
                                  std::to_string(ranks));
            with(with_hpz);
          }
      }
  return all;
}

}  // namespace shardmark
