// SPDX-License-Identifier: Apache-2.0
// Changes to a deck that `advise` considers, in the form of `--set`.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <core/plan/deck/deck.hpp>

namespace shardmark {

/// Keys of a deck with their new values, as `--set key=value` takes them.
using DeckChanges = std::vector<std::pair<std::string, std::string>>;

/// The changes as arguments of `--set`.
std::vector<std::string> sets_of(const DeckChanges& changes);

/// The value of a key as JSON where it is JSON, as `--set` reads it, and otherwise as text.
nlohmann::ordered_json value_json(const std::string& value);
/// {key: value} of the changes, each as value_json gives it.
nlohmann::ordered_json changes_json(const DeckChanges& changes);

/// Values of offload_optimizer and offload_param.
inline constexpr std::string_view offload_to_host = R"({"device": "cpu", "pin_memory": true})";
inline constexpr std::string_view no_offload = R"({"device": "none"})";

/// What is offloaded, and whether to the host or to files.
enum class Offload : std::uint8_t { none, optimizer, all, optimizer_nvme, all_nvme };

/// What the candidates start from.
struct CandidateSpace {
  std::int64_t global_batch = 0;  // sequences per step, a multiple of the parts with own samples
  std::int64_t own_micro = 0;     // the deck's micro-batch, tried if it divides; 0: unknown
  int ranks = 1, ranks_per_node = 1;
  ParallelSpec parallel;        // the candidates'
  bool has_host_memory = true;  // beside the device's, so that offload makes sense
  bool has_disk = true;
  std::vector<Schedule> schedules;  // that may be advised
  // The keys of the deck that turn recomputation on and off: of the run, of the trainer, or both.
  std::vector<std::string> recomputation_keys{"run.activation_checkpointing"};
  bool has_trainer = false;  // section hf, whose batch must be that of the config
  std::vector<std::string> deprecated_offload;  // keys of the deck
};

/// How many of the ranks have samples of their own. At least one: a degree that does not divide the
/// ranks is refused with the candidate.
std::int64_t data_parts(const ParallelSpec& parallel, int ranks);
/// The three keys of a batch, complete.
DeckChanges batch_changes(const Batch& batch, const ParallelSpec& parallel);

/// The changes that give a deck with the degrees `from` the degrees `to`.
DeckChanges degree_changes(const ParallelSpec& from, const ParallelSpec& to);

/// One basic candidate.
struct BasicChoice {
  Schedule schedule = Schedule::deepspeed;
  int stage = 0;
  Offload offload = Offload::none;
  std::int64_t micro = 1;
  bool recomputes = false;
};
/// Whether the schedule and the stage have that kind of offload, and the machine the memory.
bool has(Offload kind, Schedule schedule, int stage, const CandidateSpace& space);
/// What makes the deck that candidate, with the degrees of the space. The rest stays as it is.
DeckChanges changes_of(const Deck& deck, const CandidateSpace& space, const BasicChoice& choice);

/// Micro-batches that divide the sequences of a rank, ascending; at most eight of them.
std::vector<std::int64_t> micro_batches(std::int64_t sequences_per_rank);

/// The micro-batches of the candidates.
std::vector<std::int64_t> micro_batches_with(const CandidateSpace& space);

/// Stages 0 to 3 under every schedule of the space, with every micro-batch, with and without
/// recomputation, and with every kind of offload that the stage has. `deck` gives what stays as it
/// is.
std::vector<DeckChanges> basic_candidates(const Deck& deck, const CandidateSpace& space);

/// Variations of one basic candidate: buckets, prefetch, persistence, reuse, overlap, secondary
/// partitions, and shards over 1, 2, 4, … nodes, as far as its schedule and stage have them.
std::vector<DeckChanges> refined_candidates(const DeckChanges& basic, Schedule schedule, int stage,
                                            const CandidateSpace& space);

}  // namespace shardmark
