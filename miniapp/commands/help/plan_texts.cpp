// SPDX-License-Identifier: Apache-2.0
#include <miniapp/commands/help/texts.hpp>

namespace shardmark {

CommandHelp plan_help() {
  return {
      .name = "plan",
      .summary = "print what one rank of any world would do",
      .description =
          {"Prints the plan of one rank for any number of ranks: every collective, buffer, copy "
           "and computation of a step, in order. A summary follows: the peak of memory with the "
           "event at which it occurs, calls and bytes by collective, and the figures of "
           "DeepSpeed's estimators and of the ZeRO paper for comparison.",
           "The command uses neither MPI nor a GPU and does not look at the memory of this "
           "machine. If the deck gives budgets, the summary says whether the run fits."},
      .options = {deck_argument(),
                  set_option(),
                  ranks_option(),
                  {.name = "--rank",
                   .value = "R",
                   .text = "The rank whose plan is printed, from 0.",
                   .preset = "0"},
                  ranks_per_node_option("How many ranks share a node, and with it the budgets of "
                                        "host memory and files.",
                                        "1"),
                  {.name = "--format",
                   .value = "FORMAT",
                   .text = "Text to read, JSON for scripts, or a graph for Graphviz.",
                   .preset = "text",
                   .choices = {"text", "json", "dot"}}},
      .statuses = {{0, "The plan is printed, whether it fits a budget or not."}, bad_deck, defect},
      .examples = {{"shardmark plan inputs/gpt2-124m-z3.json --ranks 64",
                    "What rank 0 of 64 does in each step."},
                   {"shardmark plan inputs/llama-7b.json --ranks 64 --ranks-per-node 8 --set "
                    "memory.device_gib=80 --format json",
                    "Memory, collectives and whether it fits, for a script."}}};
}

std::vector<CommandHelp> deck_help() {
  return {
      {.name = "deck",
       .summary = "examine a deck without running it",
       .description = {"Examines a deck without running it."}},
      {.name = "deck check",
       .summary = "list what is wrong, has no effect, or is a default",
       .description =
           {"Reads a deck and its DeepSpeed config. An error is one line that names the file, the "
            "key, the value, the bound and the remedy. Otherwise the command lists warnings, keys "
            "that DeepSpeed ignores, keys without effect at this stage and schedule, values that "
            "are inferred, and defaults. With --ranks it also prints the summary of the plan."},
       .options = {deck_argument(),
                   set_option(),
                   {.name = "--ranks",
                    .value = "N",
                    .text = "Also checks the deck for this number of ranks, and prints memory and "
                            "collectives."}},
       .statuses = {{0, "The deck is sound, whether it fits a budget or not."}, bad_deck, defect},
       .examples = {{"shardmark deck check inputs/gpt2-124m-z3.json --ranks 64",
                     "What has no effect, and which defaults are taken, on 64 ranks."}}}};
}

CommandHelp decks_help() {
  return {.name = "decks",
          .summary = "list the decks that come with the program",
          .description =
              {"Lists the decks that come with the program, with one line about each. Every "
               "command that takes a DECK also takes one of these names. A deck that is given by "
               "name writes its checkpoints and offloaded states below the current folder."},
          .statuses = {{0, "The decks are listed."},
                       {2, "The program was moved away from its decks."},
                       defect},
          .examples = {{"shardmark decks", "Lists the decks."},
                       {"mpiexec -n 2 shardmark run gpt-tiny-z3", "Runs one of them."}}};
}

}  // namespace shardmark
