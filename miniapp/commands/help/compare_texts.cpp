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

}  // namespace shardmark
