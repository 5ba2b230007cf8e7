// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <csignal>
#include <system_error>

#include <miniapp/ranks/stop_signals.hpp>

namespace shardmark {

namespace {

constexpr int caught[] = {SIGINT, SIGTERM, SIGUSR1};

// By signal, so that no handler reads and writes what another handler may interrupt.
volatile std::sig_atomic_t interrupts = 0, terminations = 0, user_signals = 0;

void count(int signal) {
  volatile std::sig_atomic_t& of_signal = signal == SIGINT    ? interrupts
                                          : signal == SIGTERM ? terminations
                                                              : user_signals;
  of_signal = of_signal + 1;
}

void install(int signal) {
  struct sigaction action {};
  action.sa_handler = count;
  action.sa_flags = SA_RESTART;  // system calls of MPI and HDF5 go on as if nothing had happened
  sigemptyset(&action.sa_mask);
  if (sigaction(signal, &action, nullptr) != 0)
    throw std::system_error(errno, std::generic_category(), "sigaction");
}

sigset_t stop_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : caught) sigaddset(&signals, signal);
  return signals;
}

}  // namespace

// oneDNN's matrix products let the stack pointer point into a buffer on the heap, so that a handler
// on such a thread would write its frame over the blocks before that buffer.
void catch_stop_signals() {
  const sigset_t signals = stop_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  for (const int signal : caught) install(signal);
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
