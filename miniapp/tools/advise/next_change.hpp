// SPDX-License-Identifier: Apache-2.0
// The next best change: one change to a deck that makes it fit, or that makes it faster.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include <miniapp/tools/advise/evaluate.hpp>

namespace shardmark {

/// A change, beside the deck as it is.
struct NextChange {
  Candidate as_is, changed;
};

/// Evaluates single changes of the deck under its own schedule: another stage, twice or half the
/// micro-batch at the same global batch, another degree of tensors, samples or experts,
/// recomputation, offload to the host, buckets and overlap. If the deck does not fit, the answer is
/// the fastest change with which it does; otherwise the fastest of all, if it gains at least 1 %.
/// Empty: no single change helps. Changes that DeepSpeed or the reader refuses are left out. Throws
/// DeckError if the deck itself is wrong.
std::optional<NextChange> next_change(const AdviseCase& question);

/// One or two sentences, also where there is no such change.
std::string next_change_text(const std::optional<NextChange>& next, bool fits);
/// {"deck_changes", "step_s", "tokens_per_s", "device_bytes"}, or null.
nlohmann::ordered_json next_change_json(const std::optional<NextChange>& next);

}  // namespace shardmark
