// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <system_error>
#include <thread>
#include <tuple>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <tests/support/program.hpp>

namespace shardmark::test {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* mark_name = "SHARDMARK_TEST_MARK";

[[noreturn]] void fail(const char* call) {
  throw std::system_error(errno, std::generic_category(), call);
}

std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string new_mark() {
  static std::atomic<int> count{0};
  return std::to_string(getpid()) + "." + std::to_string(++count);
}

Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::microseconds(static_cast<std::int64_t>(seconds * 1e6));
}

void nap() {
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

int open_file(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) fail(path.c_str());
  return fd;
}

// Returns a terminal that changes no byte: {the test's end, the program's end}.
std::pair<int, int> open_terminal() {
  const int ours = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (ours < 0 || grantpt(ours) != 0 || unlockpt(ours) != 0) fail("posix_openpt");
  const int theirs = open(ptsname(ours), O_RDWR | O_NOCTTY | O_CLOEXEC);
  termios settings{};
  if (theirs < 0 || tcgetattr(theirs, &settings) != 0) fail("open terminal");
  settings.c_oflag &= ~static_cast<tcflag_t>(OPOST);
  if (tcsetattr(theirs, TCSANOW, &settings) != 0) fail("tcsetattr");
  if (fcntl(ours, F_SETFL, O_NONBLOCK) != 0) fail("fcntl");
  return {ours, theirs};
}

std::vector<std::string> command(const Launch& launch) {
  std::vector<std::string> words;
  if (launch.ranks > 0) {
    words = {SHARDMARK_TEST_MPIEXEC, SHARDMARK_TEST_NUMPROC_FLAG, std::to_string(launch.ranks)};
    std::istringstream flags(SHARDMARK_TEST_PREFLAGS);
    for (std::string flag; std::getline(flags, flag, ';');)
      if (!flag.empty()) words.push_back(flag);
  }
  words.emplace_back(SHARDMARK_TEST_PROGRAM);
  words.insert(words.end(), launch.args.begin(), launch.args.end());
  return words;
}

// Open MPI's launcher adds paragraphs of its own to the message of a rank that fails, each between
// two lines of dashes.
std::string without_paragraphs_of_open_mpi(const std::string& text) {
  const std::string edge(70, '-');
  std::string kept;
  bool within = false, after = false;
  for (const std::string& line : lines_of(text)) {
    const bool is_edge = line.starts_with(edge);
    if (!is_edge && !within && !(after && line.empty())) kept += line + "\n";
    if (is_edge) within = !within;
    after = is_edge || (after && line.empty());
  }
  return kept;
}

// Returns the value of `name` in a block of NUL-terminated NAME=VALUE, or "" if it is absent.
std::string value_of(const std::string& block, const std::string& name) {
  std::istringstream entries(block);
  for (std::string entry; std::getline(entries, entry, '\0');)
    if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
  return {};
}

}  // namespace

Program::Program(const Launch& launch) : mark_(new_mark()), limit_s_(launch.limit_s) {
  const std::string base = (fs::temp_directory_path() / ("shardmark-cli-" + mark_)).string();
  err_path_ = base + ".err";
  out_path_ = base + ".out";
  const int err = open_file(err_path_);
  int out = -1;
  if (launch.terminal)
    std::tie(terminal_, out) = open_terminal();
  else
    out = open_file(launch.stdout_path.empty() ? out_path_ : launch.stdout_path);
  pid_ = fork();
  if (pid_ < 0) fail("fork");
  if (pid_ == 0) become(launch, out, err);
  close(out);
  close(err);
}

Program::~Program() {
  kill_all();
  if (terminal_ >= 0) close(terminal_);
  std::error_code ignored;  // at worst a folder remains
  fs::remove(err_path_, ignored);
  fs::remove(out_path_, ignored);
}

// Runs in the child process; the only thing that may follow is exec.
void Program::become(const Launch& launch, int out, int err) {
  setpgid(0, 0);
  const int in = open("/dev/null", O_RDONLY);
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  for (const auto& [resource, most] : {std::pair(RLIMIT_FSIZE, launch.file_limit_bytes),
                                       std::pair(RLIMIT_AS, launch.memory_limit_bytes),
                                       std::pair(RLIMIT_CPU, launch.cpu_limit_s)}) {
    const rlimit limit{static_cast<rlim_t>(most), static_cast<rlim_t>(most)};
    if (most > 0 && setrlimit(resource, &limit) != 0) _exit(127);
  }
  unsetenv("SHARDMARK_FAULT");
  setenv("OMP_NUM_THREADS", "1", 1);
  setenv(mark_name, mark_.c_str(), 1);
  for (const auto& [name, value] : launch.environment) setenv(name.c_str(), value.c_str(), 1);
  std::vector<std::string> words = command(launch);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  _exit(127);
}

std::vector<Found> Program::find(bool only_ranks) const {
  std::vector<Found> found;
  std::error_code gone;  // processes may end during the search
  for (const auto& entry : fs::directory_iterator("/proc", gone)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string block = read_all(entry.path() / "environ");
    if (value_of(block, mark_name) != mark_) continue;
    if (only_ranks && fs::read_symlink(entry.path() / "exe", gone) != SHARDMARK_TEST_PROGRAM)
      continue;
    Found process{static_cast<pid_t>(std::stol(name)), -1};
    for (const char* variable : {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"})
      if (const std::string rank = value_of(block, variable); !rank.empty())
        process.rank = std::stoi(rank);
    found.push_back(process);
  }
  return found;
}

std::vector<Found> Program::ranks() const {
  return find(true);
}
std::vector<Found> Program::left() const {
  return find(false);
}

void Program::take_output() {
  if (terminal_ < 0) {
    out_ = read_all(out_path_);  // empty if the output went elsewhere
    return;
  }
  char buffer[4096];
  for (ssize_t n; (n = read(terminal_, buffer, sizeof buffer)) > 0;)
    out_.append(buffer, static_cast<std::size_t>(n));
}

std::string Program::out() {
  take_output();
  return out_;
}

bool Program::ended() {
  if (!ended_) ended_ = waitpid(pid_, &wait_status_, WNOHANG) == pid_;
  return ended_;
}

bool Program::wait_for_output(const std::string& text, double limit_s) {
  for (const auto deadline = after(limit_s); Clock::now() < deadline && !ended(); nap())
    if (out().find(text) != std::string::npos) return true;
  return false;
}

bool Program::wait_until_gone(double limit_s) const {
  for (const auto deadline = after(limit_s); Clock::now() < deadline; nap())
    if (left().empty()) return true;
  return left().empty();
}

void Program::kill_all() {
  if (!ended()) kill(-pid_, SIGKILL);
  for (const Found& process : left()) kill(process.pid, SIGKILL);
  if (!ended_) ended_ = waitpid(pid_, &wait_status_, 0) == pid_;
}

Outcome Program::wait() {
  Outcome outcome;
  const auto deadline = after(limit_s_);
  for (; !ended() && Clock::now() < deadline; nap())
    if (terminal_ >= 0) take_output();
  outcome.timed_out = !ended_;
  if (outcome.timed_out)
    kill_all();
  else
    outcome.status =
        WIFEXITED(wait_status_) ? WEXITSTATUS(wait_status_) : 128 + WTERMSIG(wait_status_);
  outcome.out = out();
  outcome.err = read_all(err_path_);
  if (launcher_is_open_mpi()) outcome.err = without_paragraphs_of_open_mpi(outcome.err);
  return outcome;
}

Outcome run(const Launch& launch) {
  const Outcome outcome = Program(launch).wait();
  return launcher_was_lost(launch, outcome) ? Program(launch).wait() : outcome;
}

bool launcher_was_lost(const Launch& launch, const Outcome& outcome) {
  return launch.ranks > 0 && outcome.status == 128 + SIGPIPE && outcome.err.empty();
}

int open_mpi_version() {
  static const int version = [] {
    FILE* const pipe = popen("'" SHARDMARK_TEST_MPIEXEC "' --version 2>&1", "r");
    if (pipe == nullptr) fail("popen");
    std::string text(1000, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), pipe));
    pclose(pipe);
    std::smatch match;
    return std::regex_search(text, match, std::regex(R"((Open MPI|OpenRTE)\) (\d+))"))
               ? std::stoi(match[2])
               : 0;
  }();
  return version;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace shardmark::test
