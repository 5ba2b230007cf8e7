// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <comm/mpi/unwatched_call.hpp>
#include <core/clock.hpp>
#include <miniapp/ranks/deadline_guard.hpp>
#include <miniapp/ranks/launcher.hpp>
#include <miniapp/ranks/stop_signals.hpp>

namespace shardmark {
namespace {

// Ten looks per second cost a rank some microseconds of a core.
constexpr std::chrono::milliseconds look_interval{100};
// If the thread itself did not run for so long, the process was stopped, and its time was, too.
constexpr std::int64_t stopped_ns = 1'000'000'000;

std::int64_t nanoseconds(double seconds) {
  return static_cast<std::int64_t>(seconds * 1e9);
}

std::string describe_self() {
  return fmt::format("rank {} (host {}, pid {})", launched_rank(), host_of_process(), getpid());
}

// A launcher kills all ranks when one ends. The ranks that miss the same deadline do so within this
// time, and all of them must be heard, since only one of them may be the one that hangs.
constexpr std::chrono::seconds others_speak{1};

constexpr double longest_s = 1e9;  // whose nanoseconds still have 63 bits

// A value that is no positive number has no effect: before MPI_Init there is no way to agree on an
// error.
double most_seconds() {
  const char* text = std::getenv("SHARDMARK_PHASE_LIMIT_S");
  const double value = text == nullptr ? 0 : std::strtod(text, nullptr);
  return value > 0 ? value : longest_s;
}

}  // namespace

DeadlineGuard& DeadlineGuard::start() {
  static DeadlineGuard& guard = *new DeadlineGuard;
  UnwatchedCall::tell([](const char* what) { guard.unwatched_call(what); });
  return guard;
}

// The new thread receives the signals that ask the run to stop, and no others: those find a thread
// of MPI or of the program, as they would without the guard.
DeadlineGuard::DeadlineGuard() : self_(describe_self()), most_s_(most_seconds()) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([this] { watch(); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void DeadlineGuard::begin(const char* what, double limit_s) {
  const std::lock_guard lock(mutex_);
  begin_locked(what, limit_s);
}

void DeadlineGuard::begin_locked(const char* what, double limit_s) {
  what_ = what;
  in_call_ = false;
  limit_s_ = std::min(limited(limit_s), longest_s);
  deadline_ns_ = monotonic_ns() + nanoseconds(limit_s_);
}

void DeadlineGuard::end() {
  const std::lock_guard lock(mutex_);
  what_ = nullptr;
  in_call_ = false;
}

void DeadlineGuard::set_timeout(double timeout_s) {
  const std::lock_guard lock(mutex_);
  call_limit_s_ = timeout_s;
}

// A phase that holds already includes the call.
void DeadlineGuard::unwatched_call(const char* what) {
  const std::lock_guard lock(mutex_);
  if (what != nullptr && what_ == nullptr) {
    begin_locked(what, call_limit_s_);
    in_call_ = true;
  } else if (what == nullptr && in_call_) {
    what_ = nullptr;
    in_call_ = false;
  }
}

void DeadlineGuard::ends_with(ExitStatus status) {
  const std::lock_guard lock(mutex_);
  status_ = status;
}

void DeadlineGuard::watch() {
  receive_stop_signals();
  for (std::int64_t last_ns = monotonic_ns();;) {
    std::this_thread::sleep_for(look_interval);
    const std::int64_t now_ns = monotonic_ns();
    const std::lock_guard lock(mutex_);
    if (now_ns - last_ns > stopped_ns) deadline_ns_ += now_ns - last_ns;
    last_ns = now_ns;
    look(now_ns);
  }
}

void DeadlineGuard::look(std::int64_t now_ns) {
  if (what_ != nullptr && now_ns > deadline_ns_) {
    say(
        fmt::format("{} not finished after {:g} s: another rank or the network may be lost: check "
                    "the other ranks' messages, their processes and their nodes",
                    what_, limit_s_));
    std::this_thread::sleep_for(others_speak);
    ::_exit(static_cast<int>(status_));
  }
  const int signals = urgent_signals_received();
  if (signals == 0) return;
  if (first_signal_ns_ == 0) first_signal_ns_ = now_ns;
  if (now_ns - first_signal_ns_ <= nanoseconds(same_signal_s)) counted_signals_ = signals;
  if (signals > counted_signals_) {
    say("a second SIGINT or SIGTERM ended it at once");
    ::_exit(static_cast<int>(ExitStatus::stopped));
  }
}

// Another thread may hold the lock of stderr, and a pipe that nobody reads may be full.
void DeadlineGuard::say(const std::string& why) const {
  const std::string line = fmt::format("shardmark: {}: {}\n", self_, why);
  pollfd err{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&err, 1, 1000) == 1) (void)!::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace shardmark
