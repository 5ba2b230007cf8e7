// SPDX-License-Identifier: Apache-2.0
// The subcommands of `shardmark`, after their arguments are parsed. `plan` and `deck check` use
// neither MPI nor a device, and do not depend on this machine's memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <core/error.hpp>
#include <miniapp/commands/given_deck.hpp>
#include <miniapp/run/run_arguments.hpp>
#include <miniapp/tools/calibrate/calibrate_arguments.hpp>
#include <miniapp/tools/noise/noise_arguments.hpp>
#include <miniapp/tools/submission/submission.hpp>

namespace shardmark {

/// Arguments of `shardmark plan`.
struct PlanArguments {
  std::string deck;
  std::vector<std::string> sets;
  int ranks = 1, rank = 0, ranks_per_node = 1;
  std::string format = "text";
};
/// Prints the program of one rank. Throws DeckError, PlanError.
ExitStatus plan_command(const PlanArguments& arguments);

/// Arguments of `shardmark predict`.
struct PredictArguments : DeckArguments {
  std::string machine;
  std::string ranks = "1";  // "1,2,8"
  int ranks_per_node = 0;   // 0: as many as the machine file says
  std::string format = "text";
  std::string out;             // a folder for a page and a trace; empty: none
  bool ignore_memory = false;  // predict a time also for what does not fit
};
/// Prints the step time of a deck on a machine file. Throws DeckError, PlanError.
ExitStatus predict_command(const PredictArguments& arguments);

/// Arguments of `shardmark trace`.
struct TraceArguments {
  std::string deck;
  std::vector<std::string> sets;
  int ranks = 1, ranks_per_node = 0;  // 0: as many as the machine file says
  std::string machine;                // a machine file, for durations; empty: none
  std::string format = "chakra";
  std::string out = "shardmark-trace";
};
/// Writes the plans of all ranks as execution traces. Throws DeckError, PlanError, IoError.
ExitStatus trace_command(const TraceArguments& arguments);

/// Collective over MPI_COMM_WORLD. Measures this machine and writes a machine file beside a page.
/// Throws DeckError.
ExitStatus calibrate_command(const CalibrateArguments& arguments);

/// Collective over MPI_COMM_WORLD. Measures the jitter of this machine, prints it, and adds it to a
/// machine file and a page if the arguments name them. Throws DeckError.
ExitStatus noise_command(const NoiseArguments& arguments);

/// Arguments of `shardmark advise`.
struct AdviseArguments : DeckArguments {
  std::string machine;
  int ranks = 1, ranks_per_node = 0;  // 0: as many as the machine file says
  int top = 10;
  std::string framework;  // deepspeed, torch or shardmark; empty: the one of the deck
  std::string write;      // a folder for decks; empty: none are written
  bool networks = false, max_model = false;
  std::string format = "text";
};
/// Prints which stage and knobs suit a deck on a machine file. Throws DeckError, MemoryError if
/// nothing fits, and IoError.
ExitStatus advise_command(const AdviseArguments& arguments);

/// Arguments of `shardmark compare`.
struct CompareArguments {
  std::vector<std::string> files;
  std::string html;  // the page; empty: none is written
  std::string format = "text";
};
/// Prints runs and predictions side by side. Throws DeckError and IoError.
ExitStatus compare_command(const CompareArguments& arguments);

/// Prints what a machine file lacks. Throws DeckError.
ExitStatus machine_check_command(const std::string& file);

/// Arguments of `shardmark deck check`.
struct CheckArguments {
  std::string deck;
  std::vector<std::string> sets;
  int ranks = 0;  // 0: not given
};
/// Prints what the deck leaves open, which keys have no effect, and what a run would take instead.
/// Throws DeckError.
ExitStatus deck_check_command(const CheckArguments& arguments);

/// Lists the decks that come with the program. Throws IoError.
ExitStatus decks_command();

/// Lists the machine files that come with the program, as "text" or "json". Throws DeckError,
/// IoError.
ExitStatus machines_command(const std::string& format);

/// Arguments of `shardmark ckpt`.
struct CkptArguments {
  enum class What : std::uint8_t { info, verify, consolidate } what = What::info;
  std::string dir;                    // a checkpoint, or a folder of them
  std::string out = "shardmark-out";  // consolidate
};
/// Throws IoError. `verify` itself prints all damage that it finds.
ExitStatus ckpt_command(const CkptArguments& arguments);

/// Collective over MPI_COMM_WORLD. Errors are agreed on and printed here; the status is the same on
/// every rank.
ExitStatus run_command(const RunArguments& arguments);

/// Arguments of `shardmark sweep`.
struct SweepArguments {
  std::string deck;
  std::vector<std::string> sets, vary;
  bool plan = false;       // plan the points, run nothing
  std::string ranks;       // "1,2,8"; plan only
  int ranks_per_node = 0;  // 0: as many as the machine file says, without one 1
  std::string machine;     // a machine file, for predictions; empty: none
  std::string out = "shardmark-sweep";
};
/// Runs (collective over MPI_COMM_WORLD) or plans (without MPI) each point of a grid that is not
/// done yet, and writes the table. The status is that of the first point that is neither planned
/// nor VALID.
ExitStatus sweep_command(const SweepArguments& arguments);

/// Packs the output folders of runs into an archive, verifies it, and prints what was found. The
/// status is `invalid` if a run is refused. Throws IoError, DeckError.
ExitStatus submit_command(const SubmitArguments& arguments);

/// Verifies an archive without running anything. The status is `invalid` if a run is refused.
/// Throws IoError.
ExitStatus verify_command(const std::string& archive);

/// Arguments of `shardmark table`.
struct TableArguments {
  std::vector<std::string> archives;
  std::string out;  // folder for table.csv and table.html; empty: none
};
/// Prints one ranking of the runs of several archives. Runs that are refused are left out, named,
/// and make the status `invalid`. Throws IoError.
ExitStatus table_command(const TableArguments& arguments);

}  // namespace shardmark
