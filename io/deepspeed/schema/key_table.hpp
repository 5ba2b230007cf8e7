// SPDX-License-Identifier: Apache-2.0
// The keys of a DeepSpeed config as data: type, default, second spelling, bounds, and the effect of
// each key in ShardMark. These tables control how keys are read, which keys are unknown, and what
// `deck check` reports about a key.
#pragma once

#include <span>
#include <vector>

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
  array,  // of `words`, if there are any
  text,
  names,          // an array of strings, or one of `words`
  not_empty,      // anything that is true by Python's rules
  one_or_zero,    // true, false, or a number that equals one of them
  int_argument,   // what Python's int() converts
  python_object,  // a value that JSON cannot express: whatever is given is wrong
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
  removed        // DeepSpeed refuses the key itself, whatever its value; `words` has the remedy
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
  // Of a word, an integer or an array: the allowed values, separated by '|'; "" means null. Of a
  // removed key: what to use in its place, or nothing.
  std::string_view words;
};

/// How DeepSpeed reads one object.
struct DsSection {
  std::span<const DsKey> keys;
  bool coerces = false;         // "auto" drops a key; "1000", "true", 2.0 and 5e8 are converted
  bool forbids_extras = false;  // unknown keys are errors; otherwise they are ignored
};

/// How DeepSpeed reads a section: as a config model, which converts values and refuses unknown
/// keys, or as a plain dictionary.
constexpr DsSection ds_model(std::span<const DsKey> keys) {
  return {keys, true, true};
}
constexpr DsSection ds_dictionary(std::span<const DsKey> keys) {
  return {keys, false, false};
}

/// A section of which ShardMark models nothing. It is read because DeepSpeed refuses some of its
/// keys and acts on others.
struct DsPart {
  std::string_view path;  // from the top of the config; its parents come first in the list
  DsSection section;
  // Whether each key is judged by itself. Otherwise the finding about the section covers its keys.
  bool is_judged = false;
  // The key without which the others have no effect, and why they have none then; or nothing.
  std::string_view gate = {}, gate_is_off = {};
};
/// Returns all such sections.
std::vector<DsPart> ds_parts();
/// The sections that only affect logging, launching, checkpoints and tuning.
std::span<const DsPart> ds_tool_parts();
/// The sections about other parallelism, compilation, data and inference.
std::span<const DsPart> ds_engine_parts();

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
