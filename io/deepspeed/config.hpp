// SPDX-License-Identifier: Apache-2.0
// What ShardMark uses of a DeepSpeed config, judged by DeepSpeed's own rules. It refuses first what
// DeepSpeed refuses, then what ShardMark does not model yet. It ignores silently only what
// DeepSpeed ignores silently, and `shardmark deck check` lists that.
// A DeepSpeed config as a file of its own, which DeepSpeed takes as it is.
#pragma once

#include <nlohmann/json.hpp>

#include <core/plan/deck/deck.hpp>
#include <io/deepspeed/log.hpp>
#include <io/deepspeed/schema/values.hpp>
#include <io/json/json_source.hpp>

namespace shardmark {

/// A whole config, one member per section.
struct DsConfig {
  DsValues top, zero, leaf_module, offload_param, offload_optimizer;
  DsValues aio, fp16, bf16, data_types, optimizer, optimizer_params;
  DsValues scheduler, scheduler_params, comms_logger, torch_autocast;
  std::map<std::string_view, DsValues> parts;  // sections of which nothing is modelled, by path
  int stage = 0;
};

/// Reads a config by its types and tables, without checking combinations. Throws DeckError.
DsConfig parse_deepspeed(Origin& origin, const Json& config);

/// Checks combinations that DeepSpeed refuses whatever the world size. Keys without effect in
/// `config` must be muted already. Throws DeckError.
void check_deepspeed_rules(const DsConfig& config, const Origin& origin);

/// The model that a config is for, and the number of ranks if it is known. The effect of some keys
/// depends on them.
struct DsModel {
  const ModelSpec* spec = nullptr;
  std::optional<int> world;
};

/// Reads, checks and judges a whole config; findings go to `origin`. `schedule` is run.schedule;
/// fewer features are modelled for one that does not follow DeepSpeed. Throws DeckError, also if no
/// batch size is given.
ZeroSpec read_deepspeed(Origin& origin, const Json& config, Schedule schedule,
                        const DsModel& model = {});

/// Returns what the config asks a run to log. `config` must be one that read_deepspeed accepts.
/// Throws DeckError if steps_per_print is not a number of steps or prof_ops is not a list of names.
DsLogSpec read_deepspeed_log(const Origin& origin, const Json& config);

/// Returns the complete batch triple for `world` ranks, inferred as DeepSpeed infers it:
/// train_batch_size == micro-batch x accumulation x world. Messages begin with `place`, the file
/// that states the batch. Throws DeckError if there is no such triple, or if the global batch
/// exceeds 63 bits.
Batch infer_batch(const ZeroSpec& zero, int world, const std::string& place);
Batch infer_batch(const Deck& deck, int world);

/// Returns `config`, which read_deepspeed has read as `zero`, with nothing left to be inferred or
/// converted: the three sizes of `batch`, numbers and booleans in the type that DeepSpeed's own
/// config has, no "auto", no null, no deprecated key, and an optimizer. Keys that DeepSpeed ignores
/// are left out, so the config has no key that DeepSpeed does not know. Sections are in the order
/// in which people write them.
nlohmann::ordered_json complete_deepspeed(const Json& config, const ZeroSpec& zero,
                                          const Batch& batch);

}  // namespace shardmark
