// SPDX-License-Identifier: Apache-2.0
// Rule: a step allocates nothing over 1 MiB outside labelled Views, except inside oneDNN and MPI.
// This executable has its own malloc in front of the C library's, which finds out who calls.
#include <algorithm>
#include <array>
#include <cstring>

#include <Kokkos_Core.hpp>
#include <dlfcn.h>
#include <execinfo.h>
#include <gtest/gtest.h>

#include <tests/support/training.hpp>

extern "C" void* __libc_malloc(std::size_t);
extern "C" void* __libc_calloc(std::size_t, std::size_t);
extern "C" void* __libc_realloc(void*, std::size_t);
extern "C" void* __libc_memalign(std::size_t, std::size_t);

namespace {

constexpr std::size_t large = std::size_t{1} << 20;

// Plain storage, since malloc writes to it.
struct Watch {
  bool on = false, busy = false;
  std::array<std::size_t, 4096> sizes{};
  std::array<char[64], 4096> callers{};
  std::size_t count = 0;
};
Watch watch;

// "" when the call came through oneDNN or an MPI library; else the innermost object that called.
void note(std::size_t bytes) {
  if (!watch.on || watch.busy || bytes <= large || watch.count == watch.sizes.size()) return;
  watch.busy = true;
  std::array<void*, 48> frames{};
  const int depth = backtrace(frames.data(), static_cast<int>(frames.size()));
  bool excused = false;
  for (int i = 0; i < depth; ++i) {
    Dl_info info{};
    if (dladdr(frames[static_cast<std::size_t>(i)], &info) == 0 || info.dli_fname == nullptr)
      continue;
    for (const char* library :
         {"libdnnl", "libmpich", "libmpi", "libuct", "libucp", "libucs", "libfabric"})
      excused = excused || std::strstr(info.dli_fname, library) != nullptr;
    if (i == 3) std::strncpy(watch.callers[watch.count], info.dli_fname, 63);
  }
  if (!excused) watch.sizes[watch.count++] = bytes;
  watch.busy = false;
}

std::vector<std::size_t> labelled;  // sizes of large labelled Views, as Kokkos reports them

void on_allocate(Kokkos::Profiling::SpaceHandle, const char* label, const void*,
                 std::uint64_t bytes) {
  if (watch.on && bytes > large && std::strncmp(label, "shardmark::", 11) == 0)
    labelled.push_back(bytes);
}

}  // namespace

extern "C" void* malloc(std::size_t bytes) {
  note(bytes);
  return __libc_malloc(bytes);
}
extern "C" void* calloc(std::size_t n, std::size_t bytes) {
  note(n * bytes);
  return __libc_calloc(n, bytes);
}
extern "C" void* realloc(void* old, std::size_t bytes) {
  note(bytes);
  return __libc_realloc(old, bytes);
}
extern "C" int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) {
  note(bytes);
  *out = __libc_memalign(alignment, bytes);
  return *out == nullptr ? 12 : 0;
}
extern "C" void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  note(bytes);
  return __libc_memalign(alignment, bytes);
}

namespace shardmark::test::heap_test {
namespace {

TEST(Heap, LargeBlocksAreLabelledViews) {
  labelled.reserve(4096);
  std::array<void*, 2> warm_up{};  // the first call of backtrace allocates
  backtrace(warm_up.data(), 2);
  Kokkos::Tools::Experimental::set_allocate_data_callback(on_allocate);
  for (int stage : {0, 1, 2, 3}) {
    int world = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &world);
    Deck deck = small_deck(stage, 4 * world);
    deck.model.hidden = 320;  // most buffers are beyond 1 MiB
    deck.model.sequence = 96;
    Training t(deck, MPI_COMM_WORLD);
    watch.count = 0;
    labelled.clear();
    watch.on = true;
    t.init();
    t.bare_step();
    t.bare_step();
    watch.on = false;
    std::vector<std::size_t> seen(watch.sizes.begin(),
                                  watch.sizes.begin() + static_cast<std::ptrdiff_t>(watch.count));
    ASSERT_GT(seen.size(), 20U);
    ASSERT_EQ(seen.size(), labelled.size()) << "stage " << stage;
    // Kokkos adds a header and padding to each allocation.
    for (std::size_t i = 0; i < seen.size(); ++i) {
      EXPECT_GE(seen[i], labelled[i]) << watch.callers[i];
      EXPECT_LE(seen[i], labelled[i] + 1024) << watch.callers[i];
    }
  }
  Kokkos::Tools::Experimental::set_allocate_data_callback(nullptr);
}

TEST(Heap, AnUnlabelledBlockWouldBeSeen) {
  watch.count = 0;
  watch.on = true;
  void* volatile block = std::malloc(2 * large);
  watch.on = false;
  std::free(block);
  EXPECT_EQ(watch.count, 1U);
}

}  // namespace
}  // namespace shardmark::test::heap_test
