// SPDX-License-Identifier: Apache-2.0
// In a planner the commands that train, measure or read checkpoints only say what they would need.
#include <fmt/core.h>

#include <core/text_of.hpp>
#include <miniapp/commands/commands.hpp>
#include <miniapp/commands/sweeper.hpp>
#include <miniapp/provenance/machine.hpp>
#include <miniapp/provenance/version.hpp>

namespace shardmark {

namespace {

[[noreturn]] void refuse(std::string_view command) {
  throw DeckError(fmt::format(
      "{}: this program is a planner (SHARDMARK_PLANNER), built without MPI, HDF5, oneDNN "
      "and Kokkos: use the whole program (docs/building.md); plan, predict, advise, deck "
      "check, sweep --plan, trace, compare, verify and table work here",
      command));
}

}  // namespace

ExitStatus run_command(const RunArguments& /*arguments*/) {
  refuse("run");
}

ExitStatus calibrate_command(const CalibrateArguments& /*arguments*/) {
  refuse("calibrate");
}

ExitStatus noise_command(const NoiseArguments& /*arguments*/) {
  refuse("noise");
}

ExitStatus ckpt_command(const CkptArguments& /*arguments*/) {
  refuse("ckpt");
}

ExitStatus run_sweep(const SweepArguments& /*arguments*/) {
  refuse("sweep without --plan");
}

std::map<std::string, std::string> library_versions() {
  return {{"shardmark", version()},
          {"planner", "plans, predicts and verifies; runs nothing"},
          {"compiler", SHARDMARK_TEXT_OF(SHARDMARK_COMPILER_ID SHARDMARK_COMPILER_VERSION)},
          {"system", operating_system()}};
}

}  // namespace shardmark
