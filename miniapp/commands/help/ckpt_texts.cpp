// SPDX-License-Identifier: Apache-2.0
#include <miniapp/commands/help/texts.hpp>

namespace shardmark {
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
            "checkpoint. Progress goes to standard error; the names of the two files are printed."},
       .options = {checkpoint_argument(),
                   out_option("The folder for both files.", "shardmark-out")},
       .statuses = {succeeded,
                    bad_argument,
                    {4, "The checkpoint cannot be used, or the files cannot be written."}},
       .examples = {{"shardmark ckpt consolidate ckpt --out one",
                     "Writes one/step-00000010.h5 and one/step-00000010.safetensors."}}}};
}

}  // namespace shardmark
