// SPDX-License-Identifier: Apache-2.0
// A DeepSpeed config as a file of its own, which DeepSpeed takes as it is.
#pragma once

#include <nlohmann/json.hpp>

#include <core/plan/deck/deck.hpp>
#include <io/json/json_source.hpp>

namespace shardmark {

/// Returns `config`, which read_deepspeed has read as `zero`, with nothing left to be inferred or
/// converted: the three sizes of `batch`, numbers and booleans in the type that DeepSpeed's own
/// config has, no "auto", no null, no deprecated key, and an optimizer. Keys that DeepSpeed ignores
/// are left out, so the config has no key that DeepSpeed does not know. Sections are in the order
/// in which people write them.
nlohmann::ordered_json complete_deepspeed(const Json& config, const ZeroSpec& zero,
                                          const Batch& batch);

}  // namespace shardmark
