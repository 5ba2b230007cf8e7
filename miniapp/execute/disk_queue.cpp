// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <fstream>
#include <mutex>
#include <thread>
#include <vector>

#include <fmt/core.h>
#include <unistd.h>

#include <core/clock.hpp>
#include <core/cpu_set.hpp>
#include <core/error.hpp>
#include <io/files/page_buffer.hpp>
#include <miniapp/execute/disk_queue.hpp>

namespace shardmark {
namespace {

// How long the compute lane sleeps between two polls of its collectives.
constexpr std::chrono::microseconds nap{200};

}  // namespace

DiskOptions disk_options(const Deck& deck) {
  constexpr std::int64_t most = std::int64_t{1} << 30;
  const AioSpec& aio = deck.zero.aio;
  const std::int64_t step = aio.block_size * std::min<std::int64_t>(aio.queue_depth, 1024);
  return {.folder = deck.zero.offload_optimizer.nvme_path,
          .param_folder = deck.zero.offload_param.nvme_path,
          .step_bytes = std::clamp(step / page_bytes * page_bytes, page_bytes, most),
          .timeout_s = deck.comm.timeout_s};
}

struct DiskQueue::Shared {
  struct Transfer {
    Direction direction;
    const SwapFile* file;
    std::int64_t at, bytes;
    std::byte* memory;
  };
  std::mutex mutex;
  std::condition_variable more, less;
  std::deque<Transfer> queue;
  struct Done {
    Direction direction;
    std::int64_t bytes;
    Carried carried;
  };
  std::vector<Done> done;         // since `finish`, in order
  std::uint64_t done_before = 0;  // how many were done until then
  std::uint64_t done_count() const { return done_before + done.size(); }
  std::exception_ptr error;
  bool ends = false;
  int thread_id = 0;
  std::thread thread;

  void work(std::int64_t step_bytes) {
    const SwapFile::Bounce bounce;
    std::unique_lock lock(mutex);
    thread_id = static_cast<int>(::gettid());
    for (;;) {
      more.wait(lock, [&] { return ends || !queue.empty(); });
      if (queue.empty()) return;
      const Transfer t = queue.front();
      queue.pop_front();
      lock.unlock();
      const std::int64_t begin_ns = monotonic_ns();
      std::exception_ptr failed;
      try {
        if (t.direction == Direction::nvme_to_host)
          t.file->read(t.at, t.bytes, t.memory, step_bytes, bounce);
        else
          t.file->write(t.at, t.bytes, t.memory, step_bytes, bounce);
      } catch (...) {
        failed = std::current_exception();
      }
      lock.lock();
      if (failed && !error) error = failed;
      done.push_back({t.direction, t.bytes, {begin_ns, monotonic_ns()}});
      less.notify_all();
    }
  }
};

DiskQueue::DiskQueue(DiskOptions options)
    : options_(std::move(options)), shared_(std::make_shared<Shared>()) {}

DiskQueue::~DiskQueue() {
  if (!shared_->thread.joinable()) return;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->ends = true;
  }
  shared_->more.notify_all();
  shared_->thread.join();
}

std::uint64_t DiskQueue::start(Direction direction, const SwapFile& file, std::int64_t at,
                               std::int64_t bytes, std::byte* memory) {
  // The thread owns a share of its data, since a transfer that never ends outlives this object.
  if (last_ == 0)
    shared_->thread = std::thread([shared = shared_, step = options_.step_bytes] {
      run_on_all_cores_of_process();
      shared->work(step);
    });
  direct_ = direct_ && file.direct();
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->queue.push_back({direction, &file, at, bytes, memory});
  }
  shared_->more.notify_all();
  LinkTraffic& t = carried_[direction];
  ++t.copies;
  t.bytes += bytes;
  return ++last_;
}

Carried DiskQueue::hold(std::uint64_t number, const std::function<void()>& progress) {
  using std::chrono::steady_clock;
  std::unique_lock lock(shared_->mutex);
  std::uint64_t seen = shared_->done_count();
  auto since = steady_clock::now();
  while (shared_->done_count() < number && !shared_->error) {
    shared_->less.wait_for(lock, nap);
    lock.unlock();
    progress();
    lock.lock();
    if (seen != shared_->done_count()) {
      seen = shared_->done_count();
      since = steady_clock::now();
    }
    if (steady_clock::now() - since < std::chrono::duration<double>(options_.timeout_s)) continue;
    shared_->thread.detach();  // it hangs in the kernel
    throw IoError(fmt::format(
        "nvme_path: a transfer is not done after {} s: the disk is too slow or does not answer: "
        "give another one, or a longer comm.timeout_s",
        options_.timeout_s));
  }
  if (shared_->error) std::rethrow_exception(shared_->error);
  const auto at = [&](std::uint64_t n) -> const Shared::Done& {
    return shared_->done[n - 1 - shared_->done_before];
  };
  for (; timed_ < number; ++timed_) {  // transfers are done in order
    const Shared::Done& d = at(timed_ + 1);
    times_[d.direction].add_copy(d.bytes, d.carried.end_ns - d.carried.begin_ns);
  }
  return at(number).carried;
}

void DiskQueue::finish() {
  const std::lock_guard lock(shared_->mutex);
  shared_->done_before = shared_->done_count();
  shared_->done.clear();
}

std::optional<DiskBytes> DiskQueue::kernel_bytes() const {
  if (last_ == 0) return {};
  int thread_id = 0;
  {
    const std::lock_guard lock(shared_->mutex);
    thread_id = shared_->thread_id;
  }
  std::ifstream file(fmt::format("/proc/self/task/{}/io", thread_id));
  DiskBytes bytes;
  int found = 0;
  std::string key;
  for (std::int64_t value = 0; file >> key >> value;) {
    if (key == "read_bytes:") bytes.read = value, ++found;
    if (key == "write_bytes:") bytes.written = value, ++found;
  }
  return found == 2 ? std::optional(bytes) : std::nullopt;
}

}  // namespace shardmark
