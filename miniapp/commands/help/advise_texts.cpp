// SPDX-License-Identifier: Apache-2.0
#include <miniapp/commands/help/texts.hpp>

namespace shardmark {

CommandHelp advise_help() {
  return {
      .name = "advise",
      .summary = "advise which stage and knobs suit a model on a machine",
      .description =
          {"Plans and prices the deck at stages 0 to 3, with every micro-batch that divides the "
           "global batch, with and without recomputation, with the kinds of offload that a stage "
           "has, and with other buckets, prefetch and partitions. It leaves out what does not fit "
           "and says by how much, and answers what to use, what that changes against the deck, "
           "what it costs beside the deck as it is and the other stages, what limits it, and with "
           "which networks another answer would be faster. It ends with the commands that check "
           "the advice.",
           "The advice is for one framework. For DeepSpeed it has what a DeepSpeed config can say, "
           "for PyTorch fully_shard, DistributedDataParallel and ZeroRedundancyOptimizer, and for "
           "ShardMark every schedule, also the ZeRO paper's, which neither of the two runs.",
           "In place of a deck, give a model's config.json with --model and a DeepSpeed config "
           "with --deepspeed.",
           "The machine need not exist; inputs/machines describes several. The command uses "
           "neither MPI nor a GPU."},
      .options =
          {deck_argument(false),
           model_options()[0],
           model_options()[1],
           model_options()[2],
           set_option(),
           machine_option(true),
           {.name = "--ranks",
            .value = "N",
            .text = "The number of ranks, which is the number of devices.",
            .required = true},
           ranks_per_node_option(),
           {.name = "--for",
            .value = "FRAMEWORK",
            .text = "Whose settings are advised. Default: torch if run.schedule is torch or the "
                    "deck has a section torch, else deepspeed if its section deepspeed is not "
                    "empty, else shardmark.",
            .choices = {"deepspeed", "torch", "shardmark"}},
           {.name = "--batch",
            .value = "B",
            .text = "Sequences per step on all ranks together (train_batch_size); 0: what the deck "
                    "gives.",
            .preset = "0"},
           {.name = "--top",
            .value = "K",
            .text = "How many candidates the table shows.",
            .preset = "10"},
           {.name = "--write",
            .value = "FOLDER",
            .text = "Writes the best deck and the best of each other stage, and beside each the "
                    "DeepSpeed config, or the arguments for PyTorch as JSON and as Python.",
            .offer = Offer::folder},
           {.name = "--networks",
            .text = "Also prices the deck as it is at each stage on other networks between nodes."},
           {.name = "--max-model",
            .text = "Answers another question: the largest model that fits at each stage."},
           format_option()},
      .statuses = {{0, "The advice is printed."},
                   {2, "A bad deck, machine file or argument."},
                   {3, "No candidate fits in memory."},
                   {4, "The decks cannot be written."},
                   defect},
      .examples = {{"shardmark advise inputs/llama-7b.json --machine inputs/machines/dgx-h100.json "
                    "--ranks 64 --batch 512",
                    "What to use for Llama 2 7B on 64 GPUs."},
                   {"shardmark advise inputs/llama-7b.json --machine dgx-a100-80gb --ranks 64 "
                    "--for torch --write advice",
                    "The same for PyTorch, with the calls of fully_shard in advice/."},
                   {"shardmark advise --model config.json --deepspeed ds_config.json --sequence "
                    "4096 --machine dgx-h100 --ranks 64 --batch 512",
                    "Settings for a model of Hugging Face and a DeepSpeed config."},
                   {"shardmark advise inputs/gpt2-1.5b.json --machine inputs/machines/dgx-2.json "
                    "--ranks 64 --max-model",
                    "The largest model that fits on 64 GPUs at each stage."}}};
}

}  // namespace shardmark
