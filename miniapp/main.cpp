// SPDX-License-Identifier: Apache-2.0
// The program: it calls a command and returns its exit status. Errors end here: one line on
// standard error, and the status that belongs to the type of the error.
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <system_error>

#include <miniapp/commands/command_line.hpp>
#include <miniapp/provenance/fatal_signals.hpp>
#include <miniapp/provenance/version.hpp>
#include <miniapp/report/standard_output.hpp>

namespace {

using namespace shardmark;

int exit_code(ExitStatus status) {
  return static_cast<int>(status);
}

int report(const Failure& failure) {
  if (!failure.what.empty() && speaks_for_launch()) print_error(failure_text(failure));
  return exit_code(failure.status);
}

// Ends the program if an exception cannot be passed on. Without memory this is the usual way: the
// destructor of a JSON value needs memory itself.
[[noreturn]] void end_at_once() noexcept {
  if (std::current_exception() == nullptr) std::abort();
  const Failure failure = current_failure();
  print_error(failure_text(failure));
  std::_Exit(exit_code(failure.status));
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  std::set_terminate(end_at_once);
  try {
    end_fatal_signals_with_a_status();
    // A write beyond the limit of file sizes then fails with EFBIG, which is reported as any other
    // failed write.
    if (std::signal(SIGXFSZ, SIG_IGN) == SIG_ERR)
      throw std::system_error(errno, std::generic_category(), "signal");
    return exit_code(run_command_line(argc, argv, commit()));
  } catch (...) {
    return report(current_failure());
  }
}
