// SPDX-License-Identifier: Apache-2.0
// The words of `--help` and of the man page: what several commands share, and the texts of each.
// docs/ says more about decks and reports; these texts alone must suffice to use the program.
#pragma once

#include <vector>

#include <miniapp/commands/help/command_help.hpp>

namespace shardmark {

/// The argument `DECK`; some commands can do without it.
inline OptionHelp deck_argument(bool required = true) {
  return {.name = "DECK",
          .text =
              "The input deck: a JSON file, or the name of a shipped deck. `shardmark --help` "
              "shows a small one, and `shardmark decks` lists the shipped ones.",
          .offer = Offer::deck,
          .required = required};
}

/// The options that stand for a deck: `--model`, `--deepspeed` and `--sequence`.
inline std::vector<OptionHelp> model_options() {
  return {{.name = "--model",
           .value = "FILE",
           .text = "A model config of Hugging Face (config.json), in place of a deck.",
           .offer = Offer::deck},
          {.name = "--deepspeed",
           .value = "FILE",
           .text = "The DeepSpeed config for --model, or one in place of the deck's own.",
           .offer = Offer::deck},
          {.name = "--sequence",
           .value = "N",
           .text = "Tokens per sample, in place of what the deck or the model's config says."}};
}

/// The option `--set`.
inline OptionHelp set_option() {
  return {.name = "--set",
          .value = "KEY.PATH=VALUE",
          .text =
              "Changes one key of the deck for this call. VALUE is read as JSON, and otherwise "
              "taken as a string. KEY.0 or KEY[0] names an element of an array. The option can be "
              "given several times.",
          .repeatable = true};
}

/// The option `--ranks` of commands that plan for one number of ranks.
inline OptionHelp ranks_option() {
  return {.name = "--ranks",
          .value = "N",
          .text = "The number of ranks to plan for.",
          .required = true};
}

/// The option `--ranks-per-node`, by default that of commands that need a machine file.
inline OptionHelp ranks_per_node_option(
    std::string_view text = "How many ranks share a node; 0: as many as the machine file says.",
    std::string_view preset = "0") {
  return {.name = "--ranks-per-node", .value = "N", .text = text, .preset = preset};
}

/// The option `--machine`.
inline OptionHelp machine_option(bool required) {
  return {.name = "--machine",
          .value = "FILE",
          .text =
              "The machine file, JSON, or the name of a shipped one such as dgx-h100, which "
              "`shardmark machines` lists; docs/machines.md explains its keys.",
          .offer = Offer::deck,
          .required = required};
}

/// The option `--format` of commands that print text or JSON.
inline OptionHelp format_option(std::string_view text = "Text to read, or JSON for scripts.") {
  return {.name = "--format",
          .value = "FORMAT",
          .text = text,
          .preset = "text",
          .choices = {"text", "json"}};
}

/// The option `--out`, with its default `preset`.
inline OptionHelp out_option(std::string_view text, std::string_view preset) {
  return {.name = "--out", .value = "DIR", .text = text, .offer = Offer::folder, .preset = preset};
}

inline constexpr StatusHelp succeeded{0, "The command succeeded."};
inline constexpr StatusHelp bad_deck{
    2, "A bad deck or argument, or a file that the deck names is missing or unreadable."};
inline constexpr StatusHelp bad_argument{2, "A bad argument."};
inline constexpr StatusHelp bad_checkpoint{
    4, "The checkpoint is missing, damaged, or cannot be read."};
inline constexpr StatusHelp lost{
    5,
    "Communication failed: a time-out (the message names the ranks that are late) or a lost rank."};

inline constexpr StatusHelp stopped{6,
                                    "SIGINT, SIGTERM, SIGUSR1 or run.time_limit_s stopped it after "
                                    "a step; the report is about the steps that were done."};

inline constexpr StatusHelp defect{70,
                                   "A defect in ShardMark. Please report the message with the "
                                   "version, the deck and the number of ranks."};

/// The texts of one command each.
CommandHelp run_help();
CommandHelp sweep_help();
CommandHelp plan_help();
CommandHelp predict_help();
CommandHelp trace_help();
CommandHelp calibrate_help();
CommandHelp noise_help();
CommandHelp advise_help();
CommandHelp compare_help();
/// A group and its commands.
std::vector<CommandHelp> machine_help();
std::vector<CommandHelp> deck_help();
CommandHelp decks_help();
CommandHelp machines_help();
/// `submit`, `verify` and `table`.
std::vector<CommandHelp> submission_help();
std::vector<CommandHelp> ckpt_help();

}  // namespace shardmark
