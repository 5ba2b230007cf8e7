// SPDX-License-Identifier: Apache-2.0
// Stands between a program and the C library. Files that the library opens inside itself (fopen)
// are not seen.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <tests/support/io_faults.hpp>

namespace shardmark::test {
namespace {

int rank_of_process() {
  for (const char* name : {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"})
    if (const char* text = std::getenv(name)) return std::atoi(text);
  return 0;
}

template<class Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

class Watch {
 public:
  // Never destroyed: files are closed until the very end of a process.
  static Watch& instance() {
    static Watch& watch = *new Watch;
    return watch;
  }

  void set(const IoFault& fault) {
    const std::lock_guard lock(mutex_);
    fault_ = fault;
    made_ = failed_ = 0;
  }
  std::int64_t failed() {
    const std::lock_guard lock(mutex_);
    return failed_;
  }

  // The error with which a call must fail; 0: none.
  int judge(const char* call, const std::string& path, const std::string& to = "") {
    const std::lock_guard lock(mutex_);
    if (fault_.under.empty() || path.compare(0, fault_.under.size(), fault_.under) != 0) return 0;
    write_down(call, path, to);
    if (fault_.call != call && fault_.call != "any") return 0;
    ++made_;
    if (made_ != fault_.nth && !(fault_.lasting && made_ > fault_.nth)) return 0;
    ++failed_;
    if (fault_.signal != 0) (void)std::raise(fault_.signal);
    return fault_.error;
  }
  int judge(const char* call, int fd) { return judge(call, path_of(fd)); }

  void opened(int fd, const std::string& path) {
    const std::lock_guard lock(mutex_);
    if (fd >= 0) paths_[fd] = path;
  }
  void closed(int fd) {
    const std::lock_guard lock(mutex_);
    paths_.erase(fd);
  }

 private:
  Watch() {
    const char* orders = std::getenv(io_fault_variable);
    if (orders == nullptr) return;
    std::istringstream words(orders);
    bool mine = true;
    for (std::string word; words >> word;) {
      const auto equals = word.find('=');
      const std::string key = word.substr(0, equals), value = word.substr(equals + 1);
      if (key == "under") fault_.under = value;
      if (key == "call") fault_.call = value;
      if (key == "nth") fault_.nth = std::atoll(value.c_str());
      if (key == "error") fault_.error = std::atoi(value.c_str());
      if (key == "lasting") fault_.lasting = value == "1";
      if (key == "signal") fault_.signal = std::atoi(value.c_str());
      if (key == "rank") mine = std::atoi(value.c_str()) == rank_;
      if (key == "log") log_ = value;
    }
    if (!mine) fault_.call.clear();
  }

  std::string path_of(int fd) {
    const std::lock_guard lock(mutex_);
    const auto it = paths_.find(fd);
    return it == paths_.end() ? std::string() : it->second;
  }

  void write_down(const char* call, const std::string& path, const std::string& to) const {
    if (log_.empty()) return;
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    const std::string line =
        std::to_string(static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec) + " " +
        std::to_string(rank_) + " " + call + " " + path + (to.empty() ? "" : " " + to) + "\n";
    const int fd = real<int (*)(const char*, int, ...)>("open")(
        log_.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (fd < 0) return;  // the test misses the line
    (void)!real<ssize_t (*)(int, const void*, size_t)>("write")(fd, line.data(), line.size());
    real<int (*)(int)>("close")(fd);
  }

  std::mutex mutex_;
  IoFault fault_;
  std::string log_;
  int rank_ = rank_of_process();
  std::int64_t made_ = 0, failed_ = 0;
  std::map<int, std::string> paths_;
};

int open_watched(const char* name, int folder, const char* path, int flags, mode_t mode) {
  Watch& watch = Watch::instance();
  if (const int error = watch.judge("open", path)) {
    errno = error;
    return -1;
  }
  static const auto open_at = real<int (*)(int, const char*, int, ...)>(name);
  const int fd = open_at(folder, path, flags, mode);
  const int error = errno;
  watch.opened(fd, path);
  errno = error;
  return fd;
}

// A call on a file that is open.
template<class Result, class Call>
Result watched(const char* call, int fd, Call real_call) {
  if (const int error = Watch::instance().judge(call, fd)) {
    errno = error;
    return -1;
  }
  return real_call();
}

}  // namespace

std::string io_fault_order(const IoFault& f, int rank, const std::string& log) {
  std::ostringstream order;
  order << "under=" << f.under << " call=" << f.call << " nth=" << f.nth << " error=" << f.error
        << " lasting=" << (f.lasting ? 1 : 0) << " signal=" << f.signal << " rank=" << rank;
  if (!log.empty()) order << " log=" << log;
  return order.str();
}

void set_io_fault(const IoFault& fault) {
  Watch::instance().set(fault);
}
std::int64_t io_faults() {
  return Watch::instance().failed();
}
void clear_io_fault() {
  set_io_fault({});
}

std::vector<IoCall> read_io_log(const std::string& path) {
  std::vector<IoCall> calls;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    IoCall call;
    words >> call.at_ns >> call.rank >> call.call >> call.path >> call.to;
    calls.push_back(call);
  }
  std::stable_sort(calls.begin(), calls.end(),
                   [](const IoCall& a, const IoCall& b) { return a.at_ns < b.at_ns; });
  return calls;
}

}  // namespace shardmark::test

using shardmark::test::open_watched;
using shardmark::test::real;
using shardmark::test::Watch;
using shardmark::test::watched;

// The C library declares some of these with attributes that a definition need not repeat.
#pragma GCC diagnostic ignored "-Wmissing-declarations"
#pragma GCC diagnostic ignored "-Wredundant-decls"

extern "C" {

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const auto mode = static_cast<mode_t>(va_arg(more, int));
  va_end(more);
  return open_watched("openat", AT_FDCWD, path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const auto mode = static_cast<mode_t>(va_arg(more, int));
  va_end(more);
  return open_watched("openat64", AT_FDCWD, path, flags, mode);
}

ssize_t write(int fd, const void* data, size_t bytes) {
  static const auto call = real<ssize_t (*)(int, const void*, size_t)>("write");
  return watched<ssize_t>("write", fd, [&] { return call(fd, data, bytes); });
}
ssize_t pwrite(int fd, const void* data, size_t bytes, off_t at) {
  static const auto call = real<ssize_t (*)(int, const void*, size_t, off_t)>("pwrite");
  return watched<ssize_t>("pwrite", fd, [&] { return call(fd, data, bytes, at); });
}
ssize_t pwrite64(int fd, const void* data, size_t bytes, off64_t at) {
  return pwrite(fd, data, bytes, at);
}
ssize_t pread(int fd, void* data, size_t bytes, off_t at) {
  static const auto call = real<ssize_t (*)(int, void*, size_t, off_t)>("pread");
  return watched<ssize_t>("pread", fd, [&] { return call(fd, data, bytes, at); });
}
ssize_t pread64(int fd, void* data, size_t bytes, off64_t at) {
  return pread(fd, data, bytes, at);
}
int ftruncate(int fd, off_t bytes) noexcept {
  static const auto call = real<int (*)(int, off_t)>("ftruncate");
  return watched<int>("ftruncate", fd, [&] { return call(fd, bytes); });
}
int ftruncate64(int fd, off64_t bytes) noexcept {
  return ftruncate(fd, bytes);
}
int fallocate(int fd, int mode, off_t at, off_t bytes) {
  static const auto call = real<int (*)(int, int, off_t, off_t)>("fallocate");
  return watched<int>("fallocate", fd, [&] { return call(fd, mode, at, bytes); });
}
int fallocate64(int fd, int mode, off64_t at, off64_t bytes) {
  return fallocate(fd, mode, at, bytes);
}
int fsync(int fd) {
  static const auto call = real<int (*)(int)>("fsync");
  return watched<int>("fsync", fd, [&] { return call(fd); });
}
// As on Linux: the descriptor is gone even where an error is reported.
int close(int fd) {
  static const auto call = real<int (*)(int)>("close");
  const int error = Watch::instance().judge("close", fd);
  Watch::instance().closed(fd);
  const int status = call(fd);
  if (error == 0) return status;
  errno = error;
  return -1;
}
int rename(const char* from, const char* to) noexcept {
  static const auto call = real<int (*)(const char*, const char*)>("rename");
  if (const int error = Watch::instance().judge("rename", from, to)) {
    errno = error;
    return -1;
  }
  return call(from, to);
}
int renameat2(int from_folder, const char* from, int to_folder, const char* to,
              unsigned flags) noexcept {
  static const auto call = real<int (*)(int, const char*, int, const char*, unsigned)>("renameat2");
  if (const int error = Watch::instance().judge("rename", from, to)) {
    errno = error;
    return -1;
  }
  return call(from_folder, from, to_folder, to, flags);
}

}  // extern "C"
