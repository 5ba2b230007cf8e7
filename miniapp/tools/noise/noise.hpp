// SPDX-License-Identifier: Apache-2.0
// The jitter of the machine itself, without a model: how evenly ranks compute, and what it costs
// them that they wait for each other.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <core/plan/price/machine.hpp>
#include <miniapp/run/launch.hpp>
#include <miniapp/tools/noise/detours.hpp>
#include <miniapp/tools/noise/distribution.hpp>
#include <miniapp/tools/noise/noise_arguments.hpp>

namespace shardmark {

/// Ranks that are described together: one rank, those of a host, or all.
struct NoiseGroup {
  std::string host;  // empty: all hosts
  int rank = -1;     // -1: several
  int ranks = 1;
  NoiseFigures figures;
  Distribution delays;          // of quanta, beyond the undisturbed one of the rank
  std::vector<Period> periods;  // of a rank
};

/// Quanta with a barrier after each, and what independent draws from the ranks' distributions say
/// about them. In seconds.
struct SynchronizedLoop {
  std::int64_t rounds = 0;
  double barrier_s = 0;  // of barriers alone
  double slowest_s = 0;  // measured: the slowest rank's quantum, mean over rounds
  double round_s = 0;    // measured: a quantum and a barrier
  double predicted_slowest_s = 0, predicted_round_s = 0;
};

/// What rounds would cost on more ranks, if each were like a random one of those here.
struct NoiseAtScale {
  int ranks = 0;
  double delay_s = 0;            // expected, of the slowest rank; no delay is above what was seen
  std::optional<double> tail_s;  // the same with the fitted tail
  double beyond_seen = 0;        // the probability that the slowest exceeds all that was seen
  double longer = 0;             // delay (with the tail where there is one) / quantum
};

struct Noise {
  NoiseArguments arguments;
  std::string date;             // UTC
  std::int64_t iterations = 0;  // of the work of a quantum
  double seconds = 0;           // that the measurement took
  NoiseGroup all;
  std::vector<NoiseGroup> hosts, ranks;
  double rank_spread = 0;  // of the time of blocks of work; 0: one rank
  double block_s = 0;      // of work
  SynchronizedLoop loop;
  std::optional<Tail> tail;  // of all.delays
  std::vector<NoiseAtScale> at_scale;
};

inline constexpr int fewest_quanta_per_loop = 100;

/// Refuses arguments that give fewer quanta per loop, or more than a rank should store. Throws
/// DeckError. Pure.
void require_quanta(const NoiseArguments& arguments);

/// Collective over all ranks. Takes `arguments.seconds` and a little more; `announce` is called
/// before each half. Throws AgreedError, CommError.
Noise measure_noise(const NoiseArguments& arguments, const World& world,
                    const std::function<void(const std::string& what)>& announce);

/// What all ranks cost at `ranks` ranks. Pure.
NoiseAtScale noise_at_scale(const Noise& noise, int ranks);

/// The result as a part of a machine file. Pure.
NoiseModel noise_model(const Noise& noise);
/// Replaces what an earlier measurement said.
void describe_noise(const Noise& noise, Machine& machine);

/// A table: the names of the columns first. The first column is text.
using NoiseRows = std::vector<std::vector<std::string>>;

/// The quanta without communication and their delays: of each rank, or of those that lost most, of
/// each host, and of all.
NoiseRows quanta_rows(const Noise& noise);
/// The rounds of a quantum and a barrier: measured and predicted.
NoiseRows loop_rows(const Noise& noise);
/// The expected delay of the slowest of many ranks in a round.
NoiseRows scale_rows(const Noise& noise);

/// What comes regularly, one sentence each; "none found" if nothing does.
std::vector<std::string> period_sentences(const Noise& noise);
/// By how much ranks differ in the same work; empty if that was not measured.
std::string spread_sentence(const Noise& noise);

/// The figures in words, for the terminal.
std::string noise_text(const Noise& noise);
/// noise.json. docs/hosts.md explains the keys.
std::string noise_json(const Noise& noise);
/// A page that needs no other file.
std::string noise_html(const Noise& noise);

}  // namespace shardmark
