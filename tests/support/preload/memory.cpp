// SPDX-License-Identifier: Apache-2.0
// SHARDMARK_TEST_MEMORY="heap 800" (or "child 800", "memfd 800"): rank 1 holds so many MiB before
// `main` begins: in its own memory, in a child process that ends with it, or in a memory file.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "rank.hpp"
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace {

void touch(std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  std::memset(memory, 1, bytes);
}

void fill_memory_file(std::size_t bytes) {
  const int file = ::memfd_create("taken", 0);
  const std::vector<char> piece(std::size_t{1} << 20, 1);
  for (std::size_t done = 0; done < bytes; done += piece.size())
    if (::write(file, piece.data(), piece.size()) < 0) std::abort();
}

__attribute__((constructor)) void take_memory() {
  const char* text = std::getenv("SHARDMARK_TEST_MEMORY");
  char kind[16] = "";
  long mib = 0;
  if (text == nullptr || shardmark::test::preload::launched_rank() != 1) return;
  if (std::sscanf(text, "%15s %ld", kind, &mib) != 2) std::abort();
  const auto bytes = static_cast<std::size_t>(mib) << 20;
  if (std::string(kind) == "heap") return touch(bytes);
  if (std::string(kind) == "memfd") return fill_memory_file(bytes);
  int ready[2];
  if (::pipe(ready) != 0) std::abort();
  if (::fork() == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int fd = 0; fd < 3; ++fd) ::close(fd);  // the launcher waits for the end of its pipes
    touch(bytes);
    static_cast<void>(::write(ready[1], "", 1));
    for (;;) ::pause();
  }
  char done = 0;
  static_cast<void>(::read(ready[0], &done, 1));
  ::close(ready[0]);
  ::close(ready[1]);
}

}  // namespace
