// SPDX-License-Identifier: Apache-2.0
#include <miniapp/checkpoint/checkpoints.hpp>
#include <miniapp/run/driver.hpp>
#include <miniapp/run/results.hpp>
#include <miniapp/run/run_output.hpp>
#include <miniapp/run/run_plan.hpp>
#include <miniapp/run/run_session.hpp>
#include <miniapp/run/trainer.hpp>

namespace shardmark {

RunOutcome run_deck(const RunArguments& arguments, const World& world) {
  RunPlan run = read_run(arguments, world);       // deck and batch, the same on all ranks
  plan_run(run, world);                           // a legal program, with as many layers as fit
  require_memory(run, world);                     // refuses a program that does not fit
  const RunOutput output(arguments, run, world);  // refuses a folder that cannot be written
  RunSession session(run, world);                 // outlives the checkpoints, which read its memory
  Checkpoints checkpoints(run.loaded, run.program, world.comm, world.peers);
  find_class(run, checkpoints.figures().resumed_from, world);  // official, as far as is known
  output.announce(checkpoints.notice());
  session.open();  // communicators, self-check, memory
  Trainer trainer(run, session, checkpoints, world, output.prints());
  trainer.train();   // start-up, warm-up, timed steps
  trainer.finish();  // the last checkpoint, the storage benchmark
  Result result = collect_results(run, session, trainer, checkpoints, world);
  output.report(result, trainer.traced_steps(), session.clock_offset_ns());
  const ExitStatus status = !result.stopped.empty() ? ExitStatus::stopped
                            : result.valid()        ? ExitStatus::valid
                                                    : ExitStatus::invalid;
  world.guard.ends_with(status);  // as reported, even if a rank hangs from here on
  return {status, run.loaded.deck, run.program, std::move(result)};
}

}  // namespace shardmark
