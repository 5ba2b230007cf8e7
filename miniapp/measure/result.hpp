// SPDX-License-Identifier: Apache-2.0
// The results of a run as plain values: measure and run/results fill them, the verdict judges them,
// and the reports print them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <core/memory/process_memory.hpp>
#include <core/plan/build/fit_layers.hpp>
#include <core/plan/interpret/copy_volume.hpp>
#include <core/plan/interpret/footprint.hpp>
#include <core/plan/interpret/volume.hpp>
#include <core/plan/plan.hpp>
#include <io/files/output_folder.hpp>
#include <miniapp/energy/energy_figure.hpp>
#include <miniapp/execute/disk_queue.hpp>
#include <miniapp/execute/step_trace.hpp>
#include <miniapp/measure/deepspeed_comms_log.hpp>
#include <miniapp/measure/device_figure.hpp>
#include <miniapp/predict/prediction.hpp>
#include <miniapp/prove/replay_result.hpp>
#include <miniapp/prove/state_hash.hpp>
#include <miniapp/ranks/stop_signals.hpp>
#include <miniapp/rules/run_class.hpp>

namespace shardmark {

/// The timed steps of one rank, in seconds. A rank's own time in a step is what it computes and
/// copies, without waiting for collectives.
struct RankSteps {
  double p50_s = 0, p99_s = 0, worst_s = 0;  // of its own time
  double waiting_caused_s = 0;  // per step: how long the other ranks together waited for this one

  /// Adds another rank of a host: the slower one of each, and the waiting of both.
  void include(const RankSteps& rank) {
    p50_s = std::max(p50_s, rank.p50_s);
    p99_s = std::max(p99_s, rank.p99_s);
    worst_s = std::max(worst_s, rank.worst_s);
    waiting_caused_s += rank.waiting_caused_s;
  }
};

/// What the section `perturb` did in the timed steps.
struct PerturbResult {
  std::vector<int> ranks;             // that were made slower
  std::int64_t slow_steps = 0;        // in which one was
  double injected_s = 0, lost_s = 0;  // in these: by the slowest rank; by the whole run
  /// Time that the run lost over time that the slowest rank lost. Empty if there were no other
  /// steps to compare with.
  std::optional<double> amplification() const {
    return comparable && injected_s > 0 ? std::optional(lost_s / injected_s) : std::nullopt;
  }
  bool comparable = false;
  double written_bytes = 0;  // to memory beside the work, by all these ranks
  double written_s = 0;      // in this time of each of them
};

/// What the section `congestion` did in the timed steps.
struct CongestionResult {
  std::vector<int> ranks;   // with background traffic
  std::string description;  // "ring, messages of 1 MiB"
  std::int64_t message_bytes = 0;
  std::size_t flows = 0;
  double moved_bytes = 0, seconds = 0;
};

/// All ranks, and what was done to them.
struct StragglerResult {
  std::vector<RankSteps> ranks;          // by rank
  double worst_step_s = 0;               // of the timed steps
  std::optional<PerturbResult> perturb;  // where the deck asks for it
  std::optional<CongestionResult> congestion;
};

/// Bytes count all ranks; seconds are those of the slowest rank.
struct CheckpointFigures {
  std::string resumed_from;  // empty if the run did not resume
  std::int64_t first_step = 0, read_bytes = 0, files_opened = 0;
  double read_s = 0;
  std::string newest;  // the last one that was written, which stays; empty: none
  std::int64_t written = 0, written_bytes = 0;
  double write_s = 0;    // of all that were written, until they were published
  double blocked_s = 0;  // of these, training waited
  // Of the storage benchmark: each write and each read, and what each rank took for its own part of
  // all of them. `cached`: the page cache may have served reads.
  std::vector<double> timed_write_s, timed_read_s;
  std::vector<double> rank_write_s, rank_read_s;
  std::string file_system;       // below the folder, as rank 0 sees it; empty: not known
  std::int64_t timed_bytes = 0;  // of states, in one checkpoint
  bool cached = false;
  std::int64_t node_memory_bytes = 0;  // the most of all nodes; 0: not known
};

/// Predicted and measured bytes of one tier on this rank.
struct TierResult {
  std::int64_t predicted_peak = 0, measured_peak = 0;  // allocated; pooled: of the arena
  std::int64_t live_peak = 0;    // of live slots, predicted; strict: equal to predicted_peak
  std::int64_t pinned_peak = 0;  // of page-locked memory in it, predicted
  CategoryBytes predicted{}, measured{};  // the peak of each category; pooled: only predicted
  std::int64_t budget = 0;
  std::string budget_source;
  std::string at;  // the event at which the plan has its peak
};

/// The figures of one kind of collective.
struct CollectiveResult {
  Traffic predicted, measured;  // over the whole run, this rank
  Traffic routed;               // what learned routing added to the prediction
  double p50_s = 0, p99_s = 0;  // from start to done, timed steps
  double late_s = 0;            // mean wait for the last rank, which is no part of the transfer
  double bus_gb_s = 0;          // nccl-tests' bus bandwidth at the median call time, GB/s (1e9)
};

/// "all_gather"; "all_gather shard" in a group that is smaller than the world.
inline std::string collective_name(const Program& program, const std::pair<int, Op>& key) {
  const std::string verb(to_string(key.second));
  return key.first == 0 ? verb : verb + " " + program.groups[key.first].name;
}

/// One direction of the link between host and device, this rank.
struct LinkResult {
  LinkTraffic predicted, measured;   // over the whole run
  double bytes_per_step = 0;         // timed steps
  double busy_s = 0, exposed_s = 0;  // timed steps: of the link; of the compute lane
  double gb_per_s() const { return busy_s > 0 ? bytes_per_step / busy_s * 1e-9 : 0; }
};

/// Files of this rank, over the whole run.
struct DiskResult {
  bool direct = false;              // transfers bypass the page cache
  std::optional<DiskBytes> kernel;  // what it counted; empty if it does not count
};

/// "Transfers bypass the page cache; the kernel read 12 bytes and wrote 24 …"
std::string describe(const DiskResult& disk);

/// Seconds per timed step, on one rank.
struct TimeResult {
  double forward = 0, backward = 0, optimizer = 0, copies = 0, exposed = 0, hidden = 0, matmul = 0;
  /// Without waiting for other ranks.
  double own() const { return phases() - exposed; }
  double phases() const { return forward + backward + optimizer; }
};

/// A member of TimeResult by its key in report.json and its name in sentences.
struct NamedTime {
  const char *key, *name;
  double TimeResult::*of;
};
inline constexpr NamedTime named_times[] = {
    {"forward", "forward", &TimeResult::forward},
    {"backward", "backward", &TimeResult::backward},
    {"optimizer", "optimizer", &TimeResult::optimizer},
    {"copies", "copies", &TimeResult::copies},
    {"matmul", "matrix products", &TimeResult::matmul},
    {"exposed_communication", "exposed communication", &TimeResult::exposed},
    {"hidden_communication", "hidden communication", &TimeResult::hidden}};

/// Medians over the timed steps, in seconds. A few steps that something disturbs move a mean and
/// not a median, so these are what predictions are compared with.
struct PhaseMedians {
  double forward = 0, backward = 0, optimizer = 0, copies = 0, exposed = 0;
  double step = 0;  // of the slowest rank
};

/// A time of a step and as measured.
struct PredictedTime {
  std::string_view name;  // "step", "forward", …
  double predicted_s = 0, measured_s = 0;
  /// predicted / measured - 1; empty if nothing was measured.
  std::optional<double> error() const {
    return measured_s > 0 ? std::optional(predicted_s / measured_s - 1) : std::nullopt;
  }
};

/// Where a rank ran, and with how many threads.
struct RankInfo {
  std::string host, processor;
  std::string cores;       // affinity mask, "0-1"
  std::string numa_nodes;  // of these cores, the same notation; empty: unknown
  int pid = 0;
  int kernel_threads = 1, matmul_threads = 1;  // of Kokkos kernels; of matrix products
  std::vector<std::string> environment;        // "NAME=value", by name
  std::string thread_binding = "false";        // of OpenMP: openmp_binding()
  int threads() const { return std::max(kernel_threads, matmul_threads); }
};

/// One check of the verdict.
struct Check {
  enum class State : std::uint8_t { pass, fail, not_applicable };
  std::string name;
  State state = State::pass;
  std::string detail;
};
template<>
inline constexpr auto value_names<Check::State> = name_list("pass", "fail", "not applicable");

/// How the tokens of a layer were spread over its experts: tokens of the fullest and the emptiest
/// expert over their mean. If ranks divide experts, also those that the fullest rank had over the
/// mean of the ranks.
struct ExpertLoad {
  std::int64_t layer = 0;
  double most = 1, least = 1;
  double rank_most = 0;  // 0: all ranks have all experts
};

struct Result;
/// The times of a step, and of its parts on this rank. Empty without a prediction.
std::vector<PredictedTime> predicted_times(const Result& result);
/// How far apart the cores were with --machine, and in which placement of the machine the
/// prediction is: a sentence without its full stop, or empty if nothing is known.
std::string cores_of_prediction(const Result& result);
/// MFU and HFU as measured: what was predicted, corrected by the time of the step. Empty without.
struct MeasuredUse {
  std::optional<double> mfu, hfu;
};
MeasuredUse measured_use(const Result& result);

/// Which run this was. Two reports with one identity are the same run.
struct RunIdentity {
  std::string id;              // 16 random hexadecimal digits
  std::string started, ended;  // UTC, "2026-11-23T12:30:00Z"; `ended` is before the report
};

/// The figures of one run, as this rank sees them.
struct Result {
  RunIdentity identity;
  std::optional<Fit> fit;  // how many layers, where the deck gives `model.fit`
  Profile profile;         // what the plan was made for, besides deck and ranks
  std::string deck_text, deck_hash, plan_hash;
  std::vector<LossRow> rows;  // one per step; loss and norm are those of the global batch
  StepTrace trace;            // of the warm-up step that the page draws, on rank 0
  EnumArray<Tier, TierResult> tiers;
  std::map<std::pair<int, Op>, CollectiveResult>
      collectives;  // by group of the program and operation
  std::int64_t timed_steps = 0;
  std::int64_t sampled_steps = 0;     // of these: whose collectives were timed
  std::vector<CommsLogOp> comms_log;  // of the whole run, if the deck's comms_logger asks for it
  std::string comms_calls;            // one line for each call, if it is verbose
  EnumArray<Direction, LinkResult> link;
  std::optional<double> emulated_link_gb_per_s;  // machine.host_link_gbps
  std::optional<DiskResult> disk;                // where states are in files
  bool copies() const {
    return std::ranges::any_of(link, [](const LinkResult& l) { return l.predicted.copies > 0; });
  }
  TimeResult times;                 // of this rank
  std::vector<ExpertLoad> experts;  // by layer that has experts, over all ranks and steps
  /// Of the steps that were not proved, unless all were: the means over the ranks. A price is that
  /// of a rank of mean speed, which waits for the slowest one as these did on average.
  PhaseMedians median_times;
  double step_p50_s = 0, step_p99_s = 0, timed_s = 0;
  int slowest_rank = 0;      // the rank that spends most time without waiting for others
  TimeResult slowest_times;  // of that rank
  StragglerResult stragglers;
  std::int64_t rss_start = 0, rss_peak = 0, rss_excess = 0, allowance = 0;  // bytes
  std::int64_t replay_copy = 0;        // bytes of rss_peak: the states that the replay begins with
  std::int64_t rss_libraries = 0;      // of rss_peak: run time and libraries of a device
  OutsideMemory outside;               // counted in rss_excess, not in rss_peak
  std::int64_t rss_peak_most = 0;      // the largest of all ranks
  std::optional<DeviceFigure> device;  // where the device has its own memory
  ReplayResult replay;
  std::optional<ProofResult> proof;  // of the collectives; empty with one rank
  StateHashes hashes;
  CheckpointFigures checkpoints;
  std::vector<RankInfo> ranks;
  std::map<std::string, std::string> versions;
  std::map<std::string, std::string> binaries;  // hashes of the program and of its libraries
  std::string bf16_products;   // how they are computed and why; empty if there are none
  std::string collectives_by;  // what the back-end chose for this machine; empty if nothing
  std::vector<std::string> warnings;
  double tokens_per_s = 0;
  EnergyFigure energy;                   // of the timed steps, all nodes
  std::optional<Prediction> prediction;  // with --machine, on rank 0
  double core_to_core_s = 0;  // with --machine: median over timed steps, see RunRecord; 0: unknown
  std::vector<Check> checks;
  RunClass run_class;                // under the run rules, on rank 0
  std::vector<std::string> sets;     // the arguments of --set
  std::optional<FileIdentity> data;  // what was trained on, on rank 0
  StopCause stop = StopCause::none;  // why the run ended before its last step
  std::string stopped;               // the same in words; empty if it did all steps
  /// No check failed, and the run was not stopped.
  bool valid() const { return stopped.empty() && checks_pass(); }
  bool checks_pass() const;
  /// Why the result is not valid: why the run ended early, then each check that failed.
  std::vector<std::string> list_of_reasons() const;
  std::string invalid_reasons() const;  // the same in one text
};

/// "29.9 MiB at start, 144 MiB at most, 30 MiB of it the states for the replay; …": what the
/// process of this rank holds.
std::string describe_resident(const Result& result);
/// Says how many of the timed steps the times of collectives come from. Empty if they come from
/// all.
std::string describe_sample(const Result& result);

}  // namespace shardmark
