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
           "versions, "
           "placement and environment; and whether they may be compared at all."},
      .options = {{.name = "FILE",
                   .value = "",
                   .text = "report.json of a run, the folder that contains it, or what `shardmark "
                           "predict --format json` printed. Several can be given.",
                   .offer = Offer::deck,
                   .required = true,
                   .repeatable = true},
                  {.name = "--html",
                   .value = "FILE",
                   .text = "Writes the comparison as a page, too.",
                   .offer = Offer::deck},
                  {.name = "--format",
                   .value = "FORMAT",
                   .text = "Text to read, or JSON for scripts.",
                   .preset = "text",
                   .choices = {"text", "json"}}},
      .statuses = {{0, "The comparison is printed, whatever it says."},
                   {2, "A file is missing, or it is not a report."},
                   {4, "The page cannot be written."},
                   defect},
      .environment = {},
      .examples = {{"shardmark compare z2/report.json z3/report.json", "Two runs side by side."}}};
}

}  // namespace shardmark
