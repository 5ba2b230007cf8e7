// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include <ucontext.h>

#include <core/nn/gpu/block.cuh>

namespace shardmark::device::stand_in {
namespace {

[[noreturn]] void end(const char* why) {
  std::fprintf(stderr, "a block on the host: thread %u of block %u, %u, %u: %s\n", threadIdx.x,
               blockIdx.x, blockIdx.y, blockIdx.z, why);
  std::abort();
}

constexpr std::size_t stack_bytes = std::size_t{256} << 10;

struct Copy {
  void* to;
  const void* from;
  std::size_t bytes, size;
};

// The threads of a block are contexts with stacks of their own. After the first switch, jumps that
// do not change the signal mask replace the context switches, because they are ten times as fast.
struct Thread {
  std::unique_ptr<std::byte[]> stack{new std::byte[stack_bytes]};
  ucontext_t start{};
  std::jmp_buf here{};
  bool alive = true, started = false;
  std::vector<Copy> copies;  // that it started and did not await yet
};

// Either all lanes make one of these calls, or none does. The values of two calls are kept, because
// a lane may be one call ahead of another lane that has not read yet.
struct Warp {
  Handed handed[2][warp_lanes];
  const char* call = nullptr;
  int arrived = 0;
  std::size_t round = 0;
};

// The stacks are kept from launch to launch.
std::vector<Thread>& threads_of_blocks(int at_least) {
  static std::vector<Thread> all;
  if (static_cast<int>(all.size()) < at_least) all.resize(static_cast<std::size_t>(at_least));
  return all;
}

class Block {
 public:
  Block(int threads, std::size_t shared_bytes, const std::function<void()>& kernel)
      : shared_(shared_bytes / sizeof(Piece) + 1),
        count_(threads),
        threads_(threads_of_blocks(threads)),
        warps_(threads / warp_lanes),
        kernel_(kernel),
        shared_bytes_(shared_bytes) {}

  void run() {
    std::memset(shared_.data(), 0xFF, shared_.size() * sizeof(Piece));
    for (Warp& w : warps_) w = {};
    arrived_ = 0;
    alive_ = count_;
    std::vector<int> order;
    for (int t = 0; t < alive_; ++t) {
      order.push_back(t);
      Thread& thread = threads_[t];
      thread.alive = true, thread.started = false;
      thread.copies.clear();
      getcontext(&thread.start);
      thread.start.uc_stack.ss_sp = thread.stack.get();
      thread.start.uc_stack.ss_size = stack_bytes;
      makecontext(&thread.start, begin, 0);
    }
    while (alive_ > 0) {
      const std::size_t before = moves_;
      std::shuffle(order.begin(), order.end(), random_);
      for (int t : order)
        if (threads_[t].alive) resume(t);
      if (moves_ == before) end("all threads wait for each other");
    }
  }

  void await_all() {
    const std::size_t round = round_;
    ++arrived_, ++moves_;
    release();
    while (round_ == round) yield();
  }

  const Handed* exchange(const char* call, const void* mine, std::size_t bytes) {
    Warp& w = warps_[static_cast<int>(threadIdx.x) / warp_lanes];
    const std::size_t round = w.round;
    Handed* handed = w.handed[round % 2];
    if (w.arrived == 0) w.call = call;
    if (w.call != call) end("lanes of a warp make different calls");
    std::memcpy(handed[lane()].bytes, mine, bytes);
    ++w.arrived, ++moves_;
    if (w.arrived == warp_lanes) w.arrived = 0, ++w.round;
    while (w.round == round) yield();
    return handed;
  }

  void start_copy(const Copy& copy) {
    const auto offset = static_cast<const std::byte*>(copy.to) - shared();
    if (offset < 0 || static_cast<std::size_t>(offset) + copy.size > shared_bytes_)
      end("a copy does not go to shared memory");
    const auto from = reinterpret_cast<std::uintptr_t>(copy.from);
    if ((static_cast<std::size_t>(offset) | from) % copy.size != 0) end("a copy is not aligned");
    threads_[now_].copies.push_back(copy);
  }
  void await_copies() {
    for (const Copy& copy : threads_[now_].copies) {
      std::memset(copy.to, 0, copy.size);
      std::memcpy(copy.to, copy.from, copy.bytes);
    }
    threads_[now_].copies.clear();
  }

  std::byte* shared() { return shared_.data()->bytes; }
  bool holds(const void* from, std::size_t bytes) {
    const auto offset = static_cast<const std::byte*>(from) - shared();
    return offset >= 0 && static_cast<std::size_t>(offset) + bytes <= shared_bytes_ &&
           offset % 16 == 0;
  }

 private:
  struct alignas(16) Piece {
    std::byte bytes[16];
  };

  static void begin();
  void resume(int t) {
    now_ = t;
    threadIdx.x = static_cast<unsigned>(t);
    if (_setjmp(scheduler_) != 0) return;
    if (threads_[t].started) _longjmp(threads_[t].here, 1);
    threads_[t].started = true;
    setcontext(&threads_[t].start);
  }
  void yield() {
    if (_setjmp(threads_[now_].here) == 0) _longjmp(scheduler_, 1);
  }
  void release() {
    if (arrived_ == alive_) arrived_ = 0, ++round_;
  }

  std::vector<Piece> shared_;
  int count_;
  std::vector<Thread>& threads_;
  std::vector<Warp> warps_;
  const std::function<void()>& kernel_;
  std::size_t shared_bytes_;
  std::jmp_buf scheduler_{};
  std::minstd_rand random_{1};
  int now_ = 0, alive_ = 0, arrived_ = 0;
  std::size_t round_ = 0, moves_ = 0;
};

Block* block = nullptr;

void Block::begin() {
  block->kernel_();
  block->threads_[block->now_].alive = false;
  --block->alive_, ++block->moves_;
  if (block->alive_ > 0) block->release();
  _longjmp(block->scheduler_, 1);
}

}  // namespace

void await_block() {
  block->await_all();
}
const Handed* exchange(const char* call, const void* mine, std::size_t bytes) {
  return block->exchange(call, mine, bytes);
}
std::byte* shared_memory() {
  return block->shared();
}
void start_copy(void* to_shared, const void* from, std::size_t bytes, std::size_t size) {
  block->start_copy({to_shared, from, bytes, size});
}
void await_copies() {
  block->await_copies();
}
void require_shared(const void* from, std::size_t bytes) {
  if (!block->holds(from, bytes)) end("a matrix's row is not in shared memory, or not aligned");
}

void run_grid(dim3 grid, int threads, std::size_t shared_bytes,
              const std::function<void()>& kernel) {
  Block all(threads, shared_bytes, kernel);
  block = &all;
  gridDim = grid;
  for (blockIdx.z = 0; blockIdx.z < grid.z; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y)
      for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x) all.run();
  block = nullptr;
}

}  // namespace shardmark::device::stand_in
