// SPDX-License-Identifier: Apache-2.0
// Reference answers: what shipped decks compute and communicate, as inputs/reference/ lists it.
// They were made by ci/reference; inputs/README.md says how.
#pragma once

#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include <core/plan/plan.hpp>
#include <io/files/output_folder.hpp>
#include <miniapp/measure/result.hpp>
#include <miniapp/rules/division.hpp>

namespace shardmark {

/// What a run did, as far as there are reference answers for it.
struct AnsweredRun {
  const nlohmann::json& deck;  // as used, with `--set` applied
  const Deck& typed;           // the same; the layers are chosen if it gives `model.fit`
  const Program& program;      // of any rank
  const std::vector<LossRow>& rows;
  nlohmann::json state_hash;              // {"param": "0123456789abcdef", …}
  std::optional<FileIdentity> data = {};  // the content of the file that it trained on
};

/// Calls, volume and memory of a program in the form of inputs/reference/ and of `shardmark plan
/// --format json`: {"plan_hash", "volume": {op: {"calls", "elems", "bytes"}}, "memory": {tier:
/// {"peak", "arena"}}}. Pure.
nlohmann::json plan_answer(const Program& program);

/// Compares a run with `answers`, the content of a file of inputs/reference/, for the deck
/// `shipped` with its data: the plan of rank 0, with the figures for this number of ranks if the
/// deck is as it was shipped; the losses, step by step, with those for this global batch; and the
/// states with their hashes if the run did the same steps on the same values. The check passes if
/// at least one of these was compared, and all agree. Throws DeckError if `answers` is not such a
/// file, and what build_legal_program throws.
Check judge_by_reference(const AnsweredRun& run, const UsedDeck& shipped,
                         const nlohmann::json& answers);

/// The same, with the shipped deck and its answers found by the deck's `name`. Empty if the deck is
/// not one of the shipped decks, or if there are no answers for it.
std::optional<Check> check_reference(const AnsweredRun& run);

}  // namespace shardmark
