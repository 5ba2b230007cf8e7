// SPDX-License-Identifier: Apache-2.0
#include <miniapp/commands/help/texts.hpp>

namespace shardmark {

const CommandHelp& program_help() {
  static const CommandHelp help{
      .name = "",
      .summary = "train a transformer under ZeRO and prove its memory and communication",
      .description =
          {"ShardMark is an HPC mini-app for machines that train large models. It trains a real "
           "transformer, data parallel, under ZeRO stage 0, 1, 2 or 3. Before a run it predicts "
           "the memory to the byte and the collectives to the call; during the run it measures "
           "both; at the end it prints one figure of merit and VALID or INVALID.",
           "A deck is a JSON file that describes a run. `deepspeed` is a DeepSpeed config, or the "
           "path of one. A small deck:",
           R"(  { "model": { "family": "gpt2", "layers": 4, "hidden": 256, "heads": 4,
               "sequence": 256, "vocab": 256 },
    "data": { "source": "file", "path": "text.txt" },
    "deepspeed": { "train_micro_batch_size_per_gpu": 4,
                   "zero_optimization": { "stage": 3 } },
    "run": { "steps": 50, "warmup": 5 } })",
           "`shardmark deck check DECK` lists the keys that a deck leaves at their defaults. "
           "`shardmark decks` lists the decks that come with the program, which can be given by "
           "name; docs/decks.md describes every key."},
      .options = {{.name = "--version",
                   .text = "Prints the version, what the program was built with, and exits."},
                  {.name = "--help-man",
                   .text = "Prints this help as a man page (roff) and exits."},
                  {.name = "--completion",
                   .value = "SHELL",
                   .text = "Prints a script that completes commands and options, and exits.",
                   .choices = {"bash", "zsh", "fish"}}},
      .statuses =
          {{0, "Success; a run is VALID."},
           {1, "A run finished, but is INVALID."},
           {2, "A bad deck or argument, or a file that the deck names is missing or unreadable."},
           {3, "A run is refused because it does not fit in memory."},
           {4, "Output cannot be written, or a checkpoint cannot be used."},
           lost,
           stopped,
           defect},
      .environment =
          {{"PMI_RANK, OMPI_COMM_WORLD_RANK, PMIX_RANK, PALS_RANKID, FLUX_TASK_RANK, SLURM_PROCID",
            "The rank that the launcher gave this process. Only rank 0 prints errors in the "
            "arguments."}},
      .examples = {{"mpiexec -n 2 shardmark run inputs/gpt-tiny-z3.json", "Trains a small GPT."},
                   {"shardmark plan inputs/gpt2-124m-z3.json --ranks 64",
                    "Prints what rank 0 of 64 would do."},
                   {"shardmark --help-man | man -l -", "Shows the man page."},
                   {"source <(shardmark --completion bash)",
                    "Completes commands and options in this shell."}}};
  return help;
}

const std::vector<CommandHelp>& commands_help() {
  static const std::vector<CommandHelp> all = [] {
    std::vector<CommandHelp> list{run_help(),   plan_help(),    calibrate_help(),
                                  noise_help(), predict_help(), advise_help(),
                                  sweep_help(), compare_help(), trace_help()};
    for (auto group : {ckpt_help(), deck_help(), machine_help()})
      for (CommandHelp& command : group) list.push_back(std::move(command));
    list.push_back(decks_help());
    list.push_back(machines_help());
    for (CommandHelp& command : submission_help()) list.push_back(std::move(command));
    return list;
  }();
  return all;
}

}  // namespace shardmark
