// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include <core/error.hpp>
#include <core/printable.hpp>
#include <miniapp/report/standard_output.hpp>

namespace shardmark {

void print_out(std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!written || std::fflush(stdout) != 0)
    throw IoError(std::string("standard output: cannot be written: ") + std::strerror(errno) +
                  ": free the space, or send it elsewhere");
}

namespace {

constexpr std::size_t most_chars = 8000;  // of a message; a longer one is the input's doing

void print_line(std::string_view prefix, std::string_view text) noexcept {
  try {
    const std::string line = std::string(prefix) + printable(text, most_chars) + '\n';
    (void)std::fwrite(line.data(), 1, line.size(), stderr);
  } catch (const std::bad_alloc&) {  // not even a line
    (void)std::fprintf(stderr, "shardmark: out of memory\n");
  }
  (void)std::fflush(stderr);
}

}  // namespace

void print_error(std::string_view what) noexcept {
  if (!what.empty()) print_line("shardmark: ", what);
}

void print_note(std::string_view text) noexcept {
  print_line("", text);
}

void open_standard_streams() noexcept {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd)
    if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF)
      (void)!::open("/dev/null",
                    fd == STDIN_FILENO ? O_RDONLY : O_WRONLY);  // the lowest that is free
}

}  // namespace shardmark
