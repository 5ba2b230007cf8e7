// SPDX-License-Identifier: Apache-2.0
// What ShardMark uses of a DeepSpeed config, judged as DeepSpeed itself would judge it: it refuses
// what DeepSpeed refuses, then what is not modelled yet, and passes over in silence nothing but
// what DeepSpeed passes over (`shardmark deck check` lists that).
#pragma once

#include <core/plan/deck/deck.hpp>
#include <io/deck/deck_reader.hpp>
#include <io/deepspeed/schema/values.hpp>

namespace shardmark {

/// A whole config, section by section.
struct DsConfig {
  DsValues top, zero, leaf_module, offload_param, offload_optimizer;
  DsValues aio, fp16, bf16, data_types, optimizer, adam, scheduler, scheduler_params, comms_logger;
  int stage = 0;
};

/// Types and tables only. Throws DeckError.
DsConfig parse_deepspeed(Origin& origin, const Json& config);

/// Combinations that DeepSpeed refuses whatever the world size. Keys without effect in `config` are
/// muted already. Throws DeckError.
void check_deepspeed_rules(const DsConfig& config, const Origin& origin);

/// All of it: parsed, checked, and refused where it is not modelled yet; findings go to `origin`.
/// `schedule` is run.schedule: "paper" models less.
/// Throws DeckError, also if no batch size is given.
ZeroSpec read_deepspeed(Origin& origin, const Json& config, std::string_view schedule);

/// What the config asks to be told of a run; a config that read_deepspeed takes. Throws DeckError:
/// steps_per_print is no count of steps, prof_ops no list of names.
DsLogSpec read_deepspeed_log(const Origin& origin, const Json& config);

/// The complete batch triple on `world` ranks, inferred as DeepSpeed does and with its assertion:
/// train_batch_size == micro-batch x accumulation x world. `place` opens messages: the deck's file.
/// Throws DeckError: no such triple, or the global batch leaves 63 bits.
Batch infer_batch(const ZeroSpec& zero, int world, const std::string& place);

}  // namespace shardmark
