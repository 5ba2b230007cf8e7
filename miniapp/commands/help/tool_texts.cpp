// SPDX-License-Identifier: Apache-2.0
#include <miniapp/commands/help/texts.hpp>

namespace shardmark {

CommandHelp compare_help() {
  return {
      .name = "compare",
      .summary = "compare runs and predictions",
      .description =
          {"Shows two or more runs or predictions side by side: figure of merit, phases, memory, "
           "bandwidths, each with its difference to the first; then what differs in deck, "
           "versions, placement and environment; and whether they may be compared at all.",
           "Runs or predictions of one deck on several numbers of ranks, in any order, are a "
           "scaling series: the command says whether it is strong or weak scaling and prints "
           "speed-up and efficiency relative to the fewest ranks, in tokens per second, or in "
           "tokens per second times parameters if the models differ. Several runs on one number of "
           "ranks count by their median. docs/scaling.md explains the figures."},
      .options = {{.name = "FILE",
                   .text = "report.json of a run, the folder that contains it, or what `shardmark "
                           "predict --format json` printed. Several can be given.",
                   .offer = Offer::deck,
                   .required = true,
                   .repeatable = true},
                  {.name = "--html",
                   .value = "FILE",
                   .text = "Writes the comparison as a page, too.",
                   .offer = Offer::deck},
                  format_option()},
      .statuses = {{0, "The comparison is printed, whatever it says."},
                   {2, "A file is missing, or it is not a report."},
                   {4, "The page cannot be written."},
                   defect},
      .examples = {{"shardmark compare z2/report.json z3/report.json", "Two runs side by side."},
                   {"shardmark compare ranks1 ranks2 ranks4 --html scaling.html",
                    "Speed-up and efficiency of runs on 1, 2 and 4 ranks."}}};
}

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
                  ranks_per_node_option(
                      "How many ranks share a node; 0: as many as the machine file says, else 1."),
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

CommandHelp noise_help() {
  return {
      .name = "noise",
      .summary = "measure the jitter of this machine, under mpiexec",
      .description =
          {"Measures how evenly the ranks that the launcher starts compute, without a model. For "
           "half of the time, each rank repeats a fixed quantum of work without communication; for "
           "the other half, with a barrier after each quantum.",
           "Printed are the delays of quanta by rank and host, interruptions at regular intervals, "
           "and the expected delay of the slowest of 64, 1024 and 16 384 ranks that are like those "
           "here. The time of the loop with barriers is compared with what the distributions of "
           "the ranks predict.",
           "Nothing else should run meanwhile. docs/hosts.md explains the figures."},
      .options =
          {{.name = "--seconds",
            .value = "S",
            .text = "How long both loops take together, at most 3600.",
            .preset = "10"},
           {.name = "--quantum-us",
            .value = "US",
            .text = "The work of a quantum, in microseconds of the slowest rank, at least 10. The "
                    "number of operations is chosen at the start and is the same on all ranks.",
            .preset = "1000"},
           {.name = "--machine",
            .value = "FILE",
            .text = "A machine file, such as one of `calibrate`. Its jitter.noise and "
                    "jitter.rank_relative_sd are replaced; comments in it are lost.",
            .offer = Offer::deck},
           {.name = "--out",
            .value = "DIR",
            .text = "A folder for noise.json and for noise.html, which shows the distributions.",
            .offer = Offer::folder},
           format_option()},
      .statuses = {{0, "The figures are printed."},
                   {2, "A bad machine file or argument."},
                   {4, "Output cannot be written."},
                   lost,
                   defect},
      .examples = {{"mpiexec -n 2 shardmark noise --machine machine.json",
                    "Measures two ranks and adds the result to a machine file."}}};
}

namespace {

OptionHelp checkpoint_argument() {
  return {.name = "DIR",
          .text = "A checkpoint, or a folder of checkpoints, of which the latest is taken.",
          .offer = Offer::folder,
          .required = true};
}

}  // namespace

std::vector<CommandHelp> ckpt_help() {
  return {
      {.name = "ckpt",
       .summary = "examine or convert a checkpoint",
       .description = {"Examines or converts a checkpoint, whatever number of ranks wrote it. "
                       "These commands need no MPI: one process reads all files."}},
      {.name = "ckpt info",
       .summary = "print what a checkpoint contains",
       .description = {"Prints the position in training, who wrote the checkpoint, its states with "
                       "their types, and its files. Only the manifest is read."},
       .options = {checkpoint_argument()},
       .statuses = {succeeded, bad_argument, bad_checkpoint},
       .examples = {{"shardmark ckpt info ckpt", "The latest checkpoint in the folder ckpt."},
                    {"shardmark ckpt info ckpt/step-00000010", "That of step 10."}}},
      {.name = "ckpt verify",
       .summary = "compare every block with its checksum",
       .description = {"Reads the whole checkpoint and reports each dataset that is damaged. "
                       "Progress goes to standard error."},
       .options = {checkpoint_argument()},
       .statuses = {{0, "All checksums are right."}, bad_argument, bad_checkpoint},
       .examples = {{"shardmark ckpt verify ckpt", "Verifies the latest checkpoint."}}},
      {.name = "ckpt consolidate",
       .summary = "write the parameters as one .h5 and one .safetensors file",
       .description =
           {"Writes the fp32 parameters by tensor name, whatever number of ranks wrote the "
            "checkpoint. Of a run that trained an adapter, these are the trained ones, and a third "
            "file has PEFT's names and lies beside adapter_config.json in a folder for PeftModel. "
            "Progress goes to standard error; the names of the files are printed."},
       .options = {checkpoint_argument(), out_option("The folder for the files.", "shardmark-out")},
       .statuses = {succeeded,
                    bad_argument,
                    {4, "The checkpoint cannot be used, or the files cannot be written."}},
       .examples = {{"shardmark ckpt consolidate ckpt --out one",
                     "Writes one/step-00000010.h5 and one/step-00000010.safetensors."}}}};
}

}  // namespace shardmark
