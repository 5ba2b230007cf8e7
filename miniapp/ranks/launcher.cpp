// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdlib>

#include <fmt/core.h>
#include <unistd.h>

#include <core/text.hpp>
#include <miniapp/ranks/launcher.hpp>

namespace shardmark {
namespace {

// The launchers, innermost first: srun also starts the daemons of the others. PMIx alone does not
// say how many processes there are. SLURM_NTASKS would not do, because a batch script has it, too,
// and may start a single process.
struct KnownLauncher {
  std::string_view name;
  const char* rank;
  const char* processes;  // nullptr: it does not say
  std::string_view remedy;
};
constexpr std::array known_launchers{
    KnownLauncher{"a launcher that speaks PMI (the mpiexec of MPICH or Intel MPI, or srun)",
                  "PMI_RANK", "PMI_SIZE", ""},
    KnownLauncher{"Open MPI's mpiexec", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", ""},
    KnownLauncher{"a launcher that speaks PMIx", "PMIX_RANK", nullptr, ""},
    KnownLauncher{"PALS", "PALS_RANKID", "PALS_SIZE", ""},
    KnownLauncher{"Flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE",
                  ", or name this MPI to Flux (`flux run -o mpi=…`)"},
    KnownLauncher{"Slurm's srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS",
                  ", or name this MPI to srun (`srun --mpi=pmi2` or `pmix`; `srun --mpi=list`)"}};

}  // namespace

const char* variable_of_process(const char* name) {
  return std::getenv(name);
}

int launched_rank(const ReadVariable& read) {
  for (const KnownLauncher& known : known_launchers)
    if (const char* value = read(known.rank); value != nullptr) return std::atoi(value);
  return 0;
}

std::optional<std::string> wrong_launcher(int world, std::string_view library,
                                          const ReadVariable& read) {
  const KnownLauncher* launcher = nullptr;  // the innermost one that says a number
  int started = 0;
  for (const KnownLauncher& known : known_launchers) {
    const char* text = known.processes != nullptr ? read(known.processes) : nullptr;
    const int processes = text != nullptr ? std::atoi(text) : 0;
    if (processes < 1) continue;
    if (processes <= world) return {};
    if (launcher == nullptr) launcher = &known, started = processes;
  }
  if (launcher == nullptr) return {};
  return fmt::format(
      "launch: {0} started {1} processes ({2} = {1}), but the MPI library of this program ({3}) "
      "has a world of {4}: start it with the launcher of that library{5}",
      launcher->name, started, launcher->processes, library, plural(world, "rank"),
      launcher->remedy);
}

std::string host_of_process() {
  char host[256] = "";
  if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  return host;
}

}  // namespace shardmark
