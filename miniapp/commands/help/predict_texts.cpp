// SPDX-License-Identifier: Apache-2.0
#include <miniapp/commands/help/texts.hpp>

namespace shardmark {

CommandHelp predict_help() {
  return {
      .name = "predict",
      .summary = "predict the time of a step on a machine file",
      .description =
          {"Predicts how long a step of the deck takes on a machine, for any numbers of ranks: the "
           "time with an interval, tokens per second, the part of the peak (MFU), the time by "
           "phase, exposed communication, which resource limits the step, and what a faster one "
           "would gain. The plan of the deck is replayed with the times of the machine file. What "
           "does not fit in the machine's memory has no time: the answer says how much is missing, "
           "and at which event.",
           "In place of a deck, give a model's config.json with --model and a DeepSpeed config "
           "with --deepspeed. For one number of ranks the answer ends with the next best change.",
           "The machine need not exist. The command uses neither MPI nor a GPU and does not look "
           "at this machine. What lies outside of what was measured is said."},
      .options = {deck_argument(false),
                  model_options()[0],
                  model_options()[1],
                  model_options()[2],
                  {.name = "--batch",
                   .value = "B",
                   .text = "Samples per step on all ranks together (train_batch_size), the same at "
                           "each number of ranks: strong scaling. Accumulation steps follow from "
                           "it. 0: what the deck gives.",
                   .preset = "0"},
                  set_option(),
                  machine_option(true),
                  {.name = "--ranks",
                   .value = "N,...",
                   .text = "The numbers of ranks to predict.",
                   .preset = "1"},
                  ranks_per_node_option(),
                  {.name = "--ignore-memory",
                   .text = "Predicts a time also for what does not fit in memory."},
                  format_option(),
                  {.name = "--out",
                   .value = "DIR",
                   .text = "A folder for prediction.html, with the step over time and plots over "
                           "ranks, and prediction-trace.json, which Perfetto opens.",
                   .offer = Offer::folder}},
      .statuses =
          {{0, "The prediction is printed."},
           {2, "A bad deck, machine file or argument."},
           {3, "The deck does not fit in the machine's memory on at least one number of ranks."},
           {4, "Output cannot be written."},
           defect},
      .examples = {
          {"shardmark predict --model config.json --deepspeed ds_config.json --machine dgx-h100 "
           "--ranks 64 --sequence 4096",
           "What a model costs under a DeepSpeed config on 64 GPUs: memory, volume, time."},
          {"shardmark predict llama-7b --machine dgx-h100 --ranks 8,16,32,64 --batch 512",
           "Strong scaling: the same 512 samples per step on more and more GPUs."},
          {"shardmark predict inputs/gpt2-124m-z3.json --machine machine.json --ranks 1,2",
           "Step time and tokens per second on one rank and on two."}}};
}

CommandHelp calibrate_help() {
  return {
      .name = "calibrate",
      .summary = "measure this machine and write a machine file, under mpiexec",
      .description = {"Measures the machine on all ranks that the launcher starts: matrix products "
                      "by shape and type and all other kernels in small models that it trains, "
                      "alone and with all ranks of a node busy; kernels over states; collectives "
                      "by verb and size, alone and beside computation; copies between host and "
                      "device; a disk; and the noise of the ranks. On several nodes, collectives "
                      "within the nodes and between them. It takes under three minutes.",
                      "Nothing else should run meanwhile. The file says so if something did. "
                      "Beside the machine file it writes calibration.html, which shows for every "
                      "point what interpolation between the others would have said."},
      .options = {{.name = "--out",
                   .value = "FILE",
                   .text = "The machine file to write.",
                   .preset = "machine.json"},
                  {.name = "--for",
                   .value = "DECK",
                   .text = "Also measures the shapes of this deck, and the kernels of its "
                           "optimizer and of ZeRO++.",
                   .offer = Offer::deck},
                  set_option(),
                  {.name = "--disk",
                   .value = "DIR",
                   .text = "A folder on the disk to measure.",
                   .offer = Offer::folder,
                   .preset = "."},
                  {.name = "--quick", .text = "Measures fewer sizes, in half a minute."},
                  {.name = "--add",
                   .text = "Adds to an earlier FILE of this machine: times become the means of all "
                           "calibrations."}},
      .statuses = {{0, "The machine file is written."},
                   {2, "A bad deck or argument."},
                   {4, "The machine file or a file on the disk cannot be written."},
                   lost,
                   defect},
      .environment = {{"OMP_NUM_THREADS",
                       "Threads per rank for kernels and matrix products; 1 if it is not set."}},
      .examples = {{"mpiexec -n 2 shardmark calibrate --out machine.json",
                    "Measures this machine with two ranks."}}};
}

std::vector<CommandHelp> machine_help() {
  return {{.name = "machine",
           .summary = "examine a machine file",
           .description = {"Examines a machine file."}},
          {.name = "machine check",
           .summary = "list what a machine file lacks",
           .description =
               {"Reads a machine file. An error is one line that names the file, the key, the "
                "value, the bound and the remedy. Otherwise the command says where the figures "
                "come from, which are missing and what is used instead, and which are absurd."},
           .options = {{.name = "FILE",
                        .text = machine_option(true).text,
                        .offer = Offer::deck,
                        .required = true}},
           .statuses = {{0, "The machine file can be used."},
                        {2, "The file is missing, unreadable, malformed or absurd."},
                        defect},
           .examples = {{"shardmark machine check machine.json", "What the file lacks."}}}};
}

CommandHelp machines_help() {
  return {.name = "machines",
          .summary = "list the machine files that come with the program",
          .description =
              {"Lists the machine files that come with the program: the name that --machine takes, "
               "the device and its memory, the devices per node, the network between nodes, and "
               "how many figures of the file are nominal (from a data sheet), measured, fitted to "
               "published runs, or assumed. The list ends with where the figures come from.",
               "`shardmark machine check NAME` says what a file lacks; its key provenance.figures "
               "gives the source of each figure."},
          .options = {format_option(
              "Text to read, or JSON for scripts, with the source of each figure.")},
          .statuses = {{0, "The machine files are listed."},
                       {2, "The program was moved away from its machine files."},
                       defect},
          .examples = {{"shardmark machines", "Lists the machine files."},
                       {"shardmark predict llama-7b --machine dgx-h100 --ranks 8,64",
                        "Predicts on one of them."}}};
}

}  // namespace shardmark
