// SPDX-License-Identifier: Apache-2.0
#include <miniapp/commands/help/texts.hpp>

namespace shardmark {
namespace {

constexpr StatusHelp refused{1, "A run is refused; the lines above say why."};
constexpr StatusHelp bad_archive{4, "An archive or a folder cannot be read or written."};

OptionHelp archives(std::string_view text, bool several) {
  return {.name = "ARCHIVE", .text = text, .required = true, .repeatable = several};
}

CommandHelp submit_help() {
  return {
      .name = "submit",
      .summary = "pack the results of runs into an archive to hand in",
      .description =
          {"Packs report.json and losses.csv of one or more runs, with their decks and plans, "
           "checksums and a form, into one zip archive, and verifies it as `shardmark verify` "
           "does: files that were changed after the run are refused. docs/run-rules.md has the "
           "rules for comparable results, which ask for five runs."},
      .options =
          {{.name = "DIR",
            .text =
                "The --out folder of a run. Several can be given, for example five repetitions.",
            .offer = Offer::folder,
            .required = true,
            .repeatable = true},
           {.name = "--out",
            .value = "FILE",
            .text = "The archive. An older one of that name is replaced.",
            .preset = "submission.zip"},
           {.name = "--form",
            .value = "NAME=TEXT",
            .text =
                "Fills an entry of the form: organisation, contact, system, nodes, network, launch "
                "(the command line), changes or remarks. The option can be given several times.",
            .repeatable = true},
           {.name = "--machine", .value = "FILE", .text = "A machine file to add."},
           {.name = "--changes",
            .value = "FILE",
            .text = "The changes of the source, as `git diff` prints them."}},
      .statuses = {{0, "The archive is written, and every run in it is verified."},
                   refused,
                   {2, "A bad argument."},
                   bad_archive,
                   defect},
      .examples = {
          {"shardmark submit run1 run2 run3 --out ours.zip --form organisation=\"The Centre\"",
           "Packs three runs."}}};
}

CommandHelp verify_help() {
  return {.name = "verify",
          .summary = "check an archive of results without running anything",
          .description =
              {"Makes the plan of every run again from its deck, and compares its hash, "
               "collectives, volume and memory with the report. Recomputes the figures of merit, "
               "the rules of VALID, the class and the division with all reasons, and every time, "
               "speed and energy that other figures determine or bound. Compares the runs with "
               "each other: five repetitions are five different runs of one program on one "
               "machine. Whatever does not add up is refused, with both figures. The last line is "
               "VERIFIED or REFUSED; an archive that cannot be read is refused too, with status 4.",
               "docs/run-rules.md lists what a verification excludes, and what only a second run, "
               "an audit or an observer can."},
          .options = {archives("An archive that `shardmark submit` made.", false)},
          .statuses = {{0, "Every run is verified."}, refused, bad_argument, bad_archive, defect},
          .examples = {{"shardmark verify ours.zip", "Verifies an archive."}}};
}

CommandHelp table_help() {
  return {
      .name = "table",
      .summary = "rank the results of several archives",
      .description = {"Verifies archives and prints one row for each archive and deck: the median "
                      "figure of merit of its runs, with the lowest and the highest. Rows of at "
                      "least five official runs are ranked against rows of the same work: deck, "
                      "ranks, parameters and tokens per step. Unofficial runs, with the reasons, "
                      "and fewer repetitions are listed apart, without a place. Runs that are "
                      "refused, or that another archive has too, are left out and named."},
      .options = {archives("Archives that `shardmark submit` made.", true),
                  {.name = "--out",
                   .value = "DIR",
                   .text = "Also writes table.csv and table.html to this folder.",
                   .offer = Offer::folder}},
      .statuses = {{0, "Every run is in the table."}, refused, bad_argument, bad_archive, defect},
      .examples = {{"shardmark table ours.zip theirs.zip --out ranking",
                    "Ranks the runs of two archives."}}};
}

}  // namespace

std::vector<CommandHelp> submission_help() {
  return {submit_help(), verify_help(), table_help()};
}

}  // namespace shardmark
