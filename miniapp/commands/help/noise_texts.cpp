// SPDX-License-Identifier: Apache-2.0
#include <miniapp/commands/help/texts.hpp>

namespace shardmark {

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

}  // namespace shardmark
