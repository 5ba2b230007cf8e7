// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/core.h>
#include <unistd.h>

#include <core/error.hpp>
#include <core/text.hpp>
#include <miniapp/report/standard_output.hpp>
#include <miniapp/run/progress.hpp>

namespace shardmark {
namespace {

constexpr std::int64_t second_ns = 1'000'000'000;

// The parent of `pid`; 0 if it is unknown. The name of a command may contain spaces and
// parentheses.
int parent_of(int pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(stat, line)) return 0;
  const auto end = line.rfind(')');
  if (end == std::string::npos || end + 4 > line.size()) return 0;
  return std::atoi(line.c_str() + end + 4);  // ") S <ppid>"
}

std::string name_of(int pid) {
  std::ifstream comm("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  std::getline(comm, name);
  return name;
}

bool is_terminal(int pid) {
  std::error_code ignored;  // of another user's process, to which this one cannot write
  const auto target =
      std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/fd/1", ignored).string();
  return target.starts_with("/dev/pts/") || target.starts_with("/dev/tty") ||
         target == "/dev/console";
}

bool is_launcher(int pid) {
  constexpr const char* prefixes[] = {"hydra", "mpiexec", "mpirun", "orte", "prte", "srun"};
  return std::ranges::any_of(
      prefixes, [name = name_of(pid)](const char* prefix) { return name.starts_with(prefix); });
}

// Whether standard output of this process is a terminal or, where launchers (such as mpiexec)
// started it, that of one of them: they give their ranks a pipe or, as Open MPI 4 does, a
// terminal of their own, whatever becomes of the text.
bool output_reaches_terminal() {
  int pid = parent_of(getpid());
  if (!is_launcher(pid)) return isatty(STDOUT_FILENO) != 0;
  for (int hops = 0; is_launcher(pid) && hops < 8; pid = parent_of(pid), ++hops)
    if (is_terminal(pid)) return true;
  return false;
}

}  // namespace

std::string time_left(double seconds, double part) {
  return clock_time(seconds * (1 - part) / part) + " left";
}

ProgressLine::ProgressLine(bool on) : terminal_(on && output_reaches_terminal()) {}

ProgressLine::~ProgressLine() {
  try {
    clear();  // an error that follows has a line of its own
  } catch (const Error&) {
  }
}

void ProgressLine::show(const std::string& text) {
  if (!terminal_) return;
  print_out("\r\x1b[K" + text);
  shown_ = true;
}

void ProgressLine::clear() {
  if (shown_) print_out("\r\x1b[K");
  shown_ = false;
}

void WorkProgress::operator()(std::int64_t done, std::int64_t all) {
  const std::int64_t now_ns = monotonic_ns();
  if (now_ns - last_ns_ < 2 * second_ns || done <= 0) return;
  last_ns_ = now_ns;
  const double part = static_cast<double>(done) / static_cast<double>(all);
  print_note(fmt::format("{}: {} of {}, {}", what_, human_bytes(done), human_bytes(all),
                         time_left(static_cast<double>(now_ns - start_ns_) * 1e-9, part)));
}

Progress::Progress(bool on, std::int64_t first_step, std::int64_t steps, std::int64_t warmup,
                   std::int64_t tokens_per_step)
    : on_(on),
      line_(on),
      first_step_(first_step),
      steps_(steps),
      warmup_(warmup),
      tokens_per_step_(tokens_per_step) {}

bool Progress::prints_after(std::int64_t step) const {
  const std::int64_t since = monotonic_ns() - last_print_ns_;
  if (line_.on_terminal()) return since > second_ns / 10;
  if (step == first_step_ || step + 1 == steps_) return true;
  const std::int64_t every = std::max<std::int64_t>(1, steps_ / 20);
  return (step + 1) % every == 0 || since > 60 * second_ns;
}

void Progress::step(std::int64_t step, double loss, double seconds) {
  if (!on_) return;
  recent_s_ = step == first_step_ ? seconds : 0.8 * recent_s_ + 0.2 * seconds;
  if (!prints_after(step)) return;
  last_print_ns_ = monotonic_ns();
  std::string line = fmt::format("step {:>{}}/{}", step + 1, std::to_string(steps_).size(), steps_);
  if (step < warmup_) line += " (warm-up)";
  if (!std::isnan(loss)) line += fmt::format("  loss {:.4f}", loss);
  line += fmt::format("  {:.0f} tokens/s  {} left",
                      static_cast<double>(tokens_per_step_) / std::max(recent_s_, 1e-9),
                      clock_time(recent_s_ * static_cast<double>(steps_ - step - 1)));
  if (line_.on_terminal())
    line_.show(line);
  else
    print_out(line + "\n");
}

}  // namespace shardmark
