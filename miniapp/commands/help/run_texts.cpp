// SPDX-License-Identifier: Apache-2.0
#include <miniapp/commands/help/texts.hpp>

namespace shardmark {
namespace {

std::vector<VariableHelp> run_environment() {
  return {
      {"OMP_NUM_THREADS", "Threads per rank for kernels and matrix products; 1 if it is not set."},
      {"SHARDMARK_BF16_PRODUCTS",
       "`native` or `widened`: how bf16 matrix products are computed. If it is not set, both are "
       "measured at start-up, and the faster is taken."},
      {"SHARDMARK_FAULT",
       "Breaks the run on purpose, so that it must end INVALID: leak, extra_call, extra_copy, "
       "skip_wait, flip_bit, stale_shard, nan, overrun, repeat_micro, wrong_update or fewer_elems. "
       "With illegal_plan it must end with status 70. NAME:RANK breaks that rank alone."},
      {"SHARDMARK_PHASE_LIMIT_S",
       "Seconds after which a rank ends that hangs outside collectives: in MPI_Init (otherwise "
       "600), communicators, checkpoints, the report, MPI_Finalize (30) or MPI_Abort (10)."},
      {"SHARDMARK_SHARED_CORES",
       "1: ranks of other nodes use the cores of this one, so a waiting rank sleeps between polls. "
       "ci/hosts sets it if its hosts have more ranks than the machine has cores."},
      {"SHARDMARK_SYSFS",
       "A folder below which sys/class/powercap, sys/class/hwmon and sys/cray/pm_counters are "
       "looked for, instead of the system's own, to try how energy is reported."},
      {"MPIR_CVAR_IREDUCE_SCATTER_BLOCK_INTRA_ALGORITHM",
       "MPICH's algorithm for reduce_scatter; set to sched_pairwise under MPICH and its relatives "
       "if it is not set."},
      {"UCX_RNDV_THRESH",
       "The size from which UCX asks the receiver before it sends; set to 2m if it is not set and "
       "several nodes have no network with remote memory access."},
      {"UCX_TCP_TX_SEG_SIZE, UCX_TCP_RX_SEG_SIZE",
       "How much UCX sends over TCP with one system call; set to 256k under the same conditions."},
      {"OMP_*, KOKKOS_*, ONEDNN_*, MPICH_*, OMPI_MCA_*, I_MPI_*, FI_*, UCX_*, NCCL_*, RCCL_* ...",
       "Settings that libraries read. They must be the same on all ranks, and the report records "
       "them; docs/valid.md has the whole list."},
  };
}

}  // namespace

CommandHelp run_help() {
  return {
      .name = "run",
      .summary = "run a deck, under mpiexec or srun",
      .description =
          {"Trains the deck's model on all ranks that the launcher starts, and prints a report: "
           "memory and collectives as predicted and as measured, time, checks, and where it ran. "
           "The last three lines are for scripts: FOM (tokens per second of the timed steps), "
           "CLASS (official or unofficial, with the reasons) and RESULT (VALID or INVALID, with "
           "the reasons).",
           "The heading says before the first step whether the run can become official, and what "
           "stands against it. --set of run.steps, run.warmup and of the other keys that "
           "docs/run-rules.md leaves free does not stand against it.",
           "A run that does not fit in memory is refused before it allocates anything.",
           "SIGINT, SIGTERM, SIGUSR1 and the deck's run.time_limit_s stop the run after the step "
           "that is running: it writes a checkpoint if the deck has the section, prints the report "
           "of the steps that were done, and ends with status 6. A second SIGINT or SIGTERM ends "
           "it at once.",
           "The output folder gets report.json (the whole report), report.html (the same as a page "
           "with drawings) and losses.csv (loss, norm and time of each step)."},
      .options = {deck_argument(), set_option(), machine_option(false),
                  out_option("The folder for the report's files. It is created if it is missing.",
                             "shardmark-out")},
      .statuses =
          {{0, "The run is VALID."},
           {1, "The run finished, but is INVALID."},
           {2,
            "A bad deck or argument; a file that the deck names is missing or unreadable; fp16 "
            "gradients overflow at the smallest loss scale; or a build for GPUs sees no GPU."},
           {3,
            "Refused: it does not fit in memory. The message says what is missing and what would "
            "help."},
           {4, "Output cannot be written, or a checkpoint cannot be used."},
           lost,
           stopped,
           defect},
      .environment = run_environment(),
      .examples = {{"mpiexec -n 2 shardmark run inputs/gpt-tiny-z3.json",
                    "Trains a small GPT under ZeRO-3 on 2 ranks."},
                   {"mpiexec -n 4 shardmark run inputs/gpt-tiny-z3.json --set run.steps=20 --set "
                    "deepspeed.zero_optimization.stage=1 --out stage1",
                    "The same for 20 steps under ZeRO-1, on 4 ranks."}}};
}

CommandHelp sweep_help() {
  return {
      .name = "sweep",
      .summary = "run or plan a deck over a grid of values",
      .description =
          {"Runs or plans the deck for each combination of the values that --vary gives, and puts "
           "the results in one table. Without --plan start it under mpiexec or srun; the points "
           "run one after another. A point that is refused or INVALID is a row that says so.",
           "The output folder gets sweep.csv, sweep.html and a folder for each point. A sweep that "
           "is started again continues where it was, and its grid can grow by values and by rank "
           "counts."},
      .options = {deck_argument(),
                  set_option(),
                  {.name = "--vary",
                   .value = "KEY.PATH=VALUE,VALUE",
                   .text =
                       "A key of the deck and its values. The option can be given several times.",
                   .required = true,
                   .repeatable = true},
                  {.name = "--plan", .text = "Only plans the points, without MPI; needs --ranks."},
                  {.name = "--ranks",
                   .value = "N,N",
                   .text = "The rank counts to plan for; only with --plan."},
                  ranks_per_node_option(
                      "How many ranks share a node, and with it the budgets of host memory "
                      "and files; 0: as many as the machine file says, without one 1."),
                  machine_option(false),
                  out_option("The folder for the table, the page and the points.",
                             "shardmark-sweep")},
      .statuses =
          {{0, "All points are VALID, or are planned."},
           {1, "The first point that did not end well is INVALID."},
           {2, "A bad deck or argument, or the first such point was refused with this status."},
           {3, "The first such point does not fit in memory."},
           {4, "Output cannot be written, or another sweep uses the folder."},
           lost,
           stopped,
           defect},
      .environment = run_environment(),
      .examples = {{"shardmark sweep inputs/gpt2-124m-z2.json --plan --ranks 8,64 --vary "
                    "deepspeed.zero_optimization.stage=0,1,2,3",
                    "Memory and collectives of the four stages on 8 and on 64 ranks."},
                   {"mpiexec -n 2 shardmark sweep inputs/gpt-tiny-z3.json --set run.steps=20 "
                    "--vary deepspeed.gradient_accumulation_steps=1,2,4",
                    "Runs three points on 2 ranks."}}};
}

}  // namespace shardmark
