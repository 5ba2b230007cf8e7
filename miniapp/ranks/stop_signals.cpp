// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <csignal>
#include <system_error>

#include <miniapp/ranks/stop_signals.hpp>

namespace shardmark {

namespace {

// By signal, so that no handler reads and writes what another handler may interrupt.
volatile std::sig_atomic_t interrupts = 0, terminations = 0, user_signals = 0;

void on_interrupt(int /*signal*/) {
  interrupts = interrupts + 1;
}
void on_termination(int /*signal*/) {
  terminations = terminations + 1;
}
void on_user_signal(int /*signal*/) {
  user_signals = 1;
}

void install(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;  // system calls of MPI and HDF5 go on as if nothing had happened
  sigemptyset(&action.sa_mask);
  if (sigaction(signal, &action, nullptr) != 0)
    throw std::system_error(errno, std::generic_category(), "sigaction");
}

sigset_t stop_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaddset(&signals, signal);
  return signals;
}

}  // namespace

std::string_view to_string(StopCause cause) {
  switch (cause) {
    case StopCause::none: return "";
    case StopCause::time_limit: return "run.time_limit_s";
    case StopCause::sigusr1: return "SIGUSR1";
    case StopCause::sigint: return "SIGINT";
    case StopCause::sigterm: break;
  }
  return "SIGTERM";
}

// oneDNN's matrix products let the stack pointer point into a buffer on the heap, so that a handler
// on such a thread would write its frame over the blocks before that buffer.
void catch_stop_signals() {
  const sigset_t signals = stop_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  install(SIGINT, on_interrupt);
  install(SIGTERM, on_termination);
  install(SIGUSR1, on_user_signal);
}

void receive_stop_signals() {
  const sigset_t signals = stop_signals();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

StopCause signal_received() {
  if (terminations > 0) return StopCause::sigterm;
  if (interrupts > 0) return StopCause::sigint;
  return user_signals > 0 ? StopCause::sigusr1 : StopCause::none;
}

int urgent_signals_received() {
  return interrupts + terminations;
}

void StopAgreement::start(StopCause own) {
  cause_ = static_cast<double>(own);
  ticket_ = peers_.start_max(cause_);
}

StopCause StopAgreement::finish() {
  peers_.wait(ticket_);
  return static_cast<StopCause>(static_cast<int>(cause_));
}

}  // namespace shardmark
