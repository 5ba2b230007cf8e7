// SPDX-License-Identifier: Apache-2.0
// The keys of a DeepSpeed config, one table per section; io/keys/key.hpp says what a row is.
#pragma once

#include <vector>

#include <io/keys/member.hpp>

namespace shardmark {

/// The path of the section about ZeRO.
inline constexpr const char* zero_section = "zero_optimization";

/// All sections of a config, each after its parents. The first one is the top level.
const std::vector<Section>& ds_sections();

/// Returns the section of a path from the top of the config, with the names of the tables, or
/// nullptr. Only `optimizer.params` and `scheduler.params` have owners: the kernel of the
/// optimizer, and the type of the scheduler.
const Section* find_section(std::string_view path, std::string_view owner = {});

/// Returns the section of a path that has one.
const Section& ds_section(std::string_view path, std::string_view owner = {});

/// Returns the row of a path from the top of the config, or nullptr. A key of `optimizer.params` or
/// `scheduler.params` is looked up in the tables of all owners.
const Key* ds_key(std::string_view path);

/// Returns the key of the section `hf` from which Hugging Face's trainer takes the value "auto" of
/// a path below `deepspeed`; "hf" if it asks no argument; empty if it does not fill that key.
/// io/hf/config_filler.hpp does the same if a deck has that section.
std::string_view hf_key_of(std::string_view path);

/// Returns what to do about an "auto" that nobody has filled, as the end of a message.
std::string auto_remedy(std::string_view path);

/// The sections of each table.
std::span<const Section> zero_sections();
/// Precision, scheduler, offload.
std::span<const Section> typed_sections();
std::span<const Section> optimizer_sections();
/// The sections that only affect logging, launching, checkpoints and tuning.
std::span<const Section> tool_sections();
/// The sections about other parallelism, compilation, data and inference.
std::span<const Section> engine_sections();

}  // namespace shardmark
