// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <csignal>
#include <string>
#include <system_error>

#include <fmt/core.h>
#include <unistd.h>

#include <core/error.hpp>
#include <miniapp/provenance/fatal_signals.hpp>
#include <miniapp/provenance/version.hpp>

namespace shardmark {

namespace {

// A handler may not allocate, so the lines are made before. They are never freed.
struct Ending {
  int status = 0;
  const std::string* line = nullptr;
};
Ending on_abort, on_illegal_instruction;

Ending ending(const Failure& failure) {
  return {static_cast<int>(failure.status),
          new std::string("shardmark: " + failure_text(failure) + "\n")};
}

void end(int signal) {
  const Ending& e = signal == SIGILL ? on_illegal_instruction : on_abort;
  (void)!::write(STDERR_FILENO, e.line->data(), e.line->size());
  ::_exit(e.status);
}

void install(int signal) {
  struct sigaction action {};
  action.sa_handler = end;
  sigemptyset(&action.sa_mask);
  if (sigaction(signal, &action, nullptr) != 0)
    throw std::system_error(errno, std::generic_category(), "sigaction");
}

}  // namespace

void end_fatal_signals_with_a_status() {
  on_abort = ending(
      {ExitStatus::defect, "the program was aborted (SIGABRT), see the lines above, if any"});
  on_illegal_instruction = ending(
      {ExitStatus::usage,
       "this processor lacks an instruction that the program uses (SIGILL): build it on this "
       "machine, or for all machines with -DSHARDMARK_NATIVE=OFF"});
  install(SIGABRT);
  install(SIGILL);
}

std::string failure_text(const Failure& failure) {
  // A message that names neither place nor remedy is the system's refusal, wherever it came.
  if (failure.status == ExitStatus::memory && !failure.what.empty() &&
      failure.what.find(": ") == std::string::npos)
    return failure.what +
           ": end other programs, run fewer ranks on each node, or give a smaller deck";
  if (failure.status != ExitStatus::defect || failure.what.empty()) return failure.what;
  return fmt::format(
      "{}: this is a defect in ShardMark {}, not in your deck: please report this message with the "
      "version, the deck with all --set arguments, and the number of ranks",
      failure.what, version());
}

}  // namespace shardmark
