// SPDX-License-Identifier: Apache-2.0
#include <miniapp/commands/help/texts.hpp>

namespace shardmark {

CommandHelp trace_help() {
  return {
      .name = "trace",
      .summary = "write a step of all ranks as Chakra execution traces",
      .description =
          {"Writes the plan of one step as a graph, one file per rank, in the format of MLCommons "
           "Chakra: kernels with their operations and bytes, copies, and collectives with type, "
           "size and group, each with what it waits for. Simulators such as ASTRA-sim replay it. "
           "With a machine file each node has the duration that `predict` gives it.",
           "A run writes its first timed step in the same form, with measured times, if `trace` of "
           "its deck ends in .et."},
      .options = {deck_argument(),
                  set_option(),
                  ranks_option(),
                  {.name = "--ranks-per-node",
                   .value = "N",
                   .text =
                       "How many ranks share a node; 0: as many as the machine file says, else 1.",
                   .preset = "0"},
                  machine_option(false),
                  {.name = "--format",
                   .value = "FORMAT",
                   .text = "The format of the traces.",
                   .preset = "chakra",
                   .choices = {"chakra"}},
                  out_option("The folder for NAME.0.et, NAME.1.et and so on, and NAME.groups.json "
                             "if ranks communicate in groups.",
                             "shardmark-trace")},
      .statuses = {{0, "The traces are written."},
                   {2, "A bad deck, machine file or argument."},
                   {4, "Output cannot be written."},
                   defect},
      .examples = {
          {"shardmark trace gpt2-124m-z3 --ranks 8 --machine inputs/machines/dgx-a100-80gb.json",
           "Eight traces with predicted durations."}}};
}

}  // namespace shardmark
