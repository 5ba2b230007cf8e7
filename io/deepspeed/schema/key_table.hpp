// SPDX-License-Identifier: Apache-2.0
// The keys of a DeepSpeed config as data: type, default, second spelling, bounds, and the effect of
// each key in ShardMark. These tables control how keys are read, which keys are unknown, and what
// `deck check` reports about a key.
#pragma once

#include <span>

#include <io/keys/key_reader.hpp>

namespace shardmark {

/// The type of a value. The `_or_null` types also accept null, which leaves the key unset.
enum class DsType : std::uint8_t {
  boolean,
  boolean_or_null,
  truth,  // anything, true or false by Python's rules
  integer,
  integer_not_boolean,
  number,
  number_not_boolean,
  word,           // one of `words`
  word_any_case,  // one of `words`, in any case
  object,
  object_or_null,
  array,
  text,
  any
};

/// The effect of a key in ShardMark.
enum class DsEffect : std::uint8_t {
  used,    // ShardMark does what the key says
  tunes,   // used by schedules that follow DeepSpeed; has no effect under the others
  values,  // used by schedules that follow DeepSpeed, where it changes values; the others refuse it
           // unless it changes nothing
  inert,  // about logging, checkpoints or start-up: changes neither values, memory nor traffic of a
          // step
  dead,   // DeepSpeed itself never reads it
  not_modelled,  // changes values or placement: refused unless it has its default value
  removed        // DeepSpeed refuses the key itself
};

/// The stages at which DeepSpeed uses a key.
struct Stages {
  int first = 0, last = 3;
};
inline constexpr Stages all_stages{0, 3};

// Ranges that many keys have.
inline constexpr RealRange any_real{};
inline constexpr RealRange not_negative{0};

/// One key of a DeepSpeed config.
struct DsKey {
  std::string_view name, alias;  // the field, and its other spelling or nothing
  DsType type = DsType::any;
  std::string_view fallback = "null";  // JSON
  DsEffect effect = DsEffect::inert;
  Stages stages;
  RealRange range;
  std::string_view
      words;  // of a word or an integer: the allowed values, separated by '|'; "" means null
};

/// How DeepSpeed reads one object.
struct DsSection {
  std::span<const DsKey> keys;
  bool coerces = false;         // "auto" drops a key; "1000", "true", 2.0 and 5e8 are converted
  bool forbids_extras = false;  // unknown keys are errors; otherwise they are ignored
};

/// A section below the top level that only affects logging.
struct DsLogSection {
  std::string_view name;
  DsSection section;
};
std::span<const DsLogSection> ds_log_sections();

/// The table of each section, by the section's name.
DsSection ds_comms_logger();
DsSection ds_top_level();
DsSection ds_zero();
DsSection ds_offload_param();
DsSection ds_offload_optimizer();
DsSection ds_aio();
DsSection ds_fp16();
DsSection ds_bf16();
DsSection ds_optimizer();
/// The parameters of each optimizer.
DsSection ds_adam();
DsSection ds_lion();
DsSection ds_sgd();
DsSection ds_adagrad();
DsSection ds_muon();
DsSection ds_data_types();
DsSection ds_leaf_module();
DsSection ds_scheduler();
DsSection ds_torch_autocast();
/// The parameters of WarmupLR, WarmupDecayLR and WarmupCosineLR.
DsSection ds_warmup();
DsSection ds_warmup_decay();
DsSection ds_warmup_cosine();

}  // namespace shardmark
