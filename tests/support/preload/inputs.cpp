// SPDX-License-Identifier: Apache-2.0
// SHARDMARK_TEST_DATA="FROM TO": when rank 1 opens a file whose name ends in FROM, it gets TO.
// SHARDMARK_TEST_LIBRARY="NAME": rank 1 loads one more library before `main` begins.
// SHARDMARK_TEST_VARIABLE="NAME VALUE": rank 1 has this variable in its environment.
#include <cstdarg>
#include <cstdlib>
#include <sstream>
#include <string>

#include "rank.hpp"
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

std::string chosen(const char* path) {
  const char* text = std::getenv("SHARDMARK_TEST_DATA");
  if (text == nullptr || shardmark::test::preload::launched_rank() != 1) return path;
  std::istringstream words(text);
  std::string from, to;
  words >> from >> to;
  return std::string(path).ends_with(from) ? to : path;
}

__attribute__((constructor)) void load_library() {
  const char* name = std::getenv("SHARDMARK_TEST_LIBRARY");
  if (name == nullptr || shardmark::test::preload::launched_rank() != 1) return;
  if (::dlopen(name, RTLD_NOW) == nullptr) std::abort();
}

__attribute__((constructor)) void set_variable() {
  const char* text = std::getenv("SHARDMARK_TEST_VARIABLE");
  if (text == nullptr || shardmark::test::preload::launched_rank() != 1) return;
  std::istringstream words(text);
  std::string name, value;
  words >> name >> value;
  if (::setenv(name.c_str(), value.c_str(), 1) != 0) std::abort();
}

}  // namespace

extern "C" int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const auto mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, int) : 0;
  va_end(arguments);
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, chosen(path).c_str(), flags, mode));
}
