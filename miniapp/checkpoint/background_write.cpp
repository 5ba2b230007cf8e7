// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <core/clock.hpp>
#include <core/cpu_set.hpp>
#include <core/error.hpp>
#include <io/files/durable_file.hpp>
#include <io/files/regular_file.hpp>
#include <miniapp/checkpoint/background_write.hpp>
#include <miniapp/execute/lane_times.hpp>

namespace shardmark {
namespace {

constexpr std::chrono::milliseconds poll_interval{5};

std::string note_name(int rank) {
  return fmt::format("part-{:05}", rank);
}

// Returns an empty text while there is no such file.
std::string read_note(const std::string& path) {
  constexpr std::int64_t max_note_bytes = 4096;
  return read_regular_file_if_there(path, max_note_bytes, checkpoint_remedy).value_or("");
}

std::vector<WrittenPart> notes_of_all(const std::string& folder, int world, double timeout_s,
                                      const std::atomic<bool>& given_up) {
  const std::int64_t start_ns = monotonic_ns();
  std::vector<WrittenPart> notes(static_cast<std::size_t>(world));
  for (int r = 0; r < world; ++r) {
    const std::string path = folder + "/" + note_name(r);
    std::string text = read_note(path);
    for (; text.empty(); text = read_note(path)) {
      if (given_up) throw IoError(folder + ": another rank could not write its file");
      if (seconds_since(start_ns) > timeout_s)
        throw IoError(
            fmt::format("{}: rank {} has not written its file after {} s: give a larger "
                        "comm.timeout_s, or a faster checkpoint.dir",
                        folder, r, timeout_s));
      std::this_thread::sleep_for(poll_interval);
    }
    if (text.size() != sizeof(WrittenPart))
      throw IoError(fmt::format("{}: is damaged: give another checkpoint.dir", path));
    std::memcpy(&notes[r], text.data(), sizeof(WrittenPart));
  }
  for (int r = 0; r < world; ++r) {
    const std::string path = folder + "/" + note_name(r);
    std::error_code error;
    std::filesystem::remove(path, error);
    if (error) fail_io(path, "cannot be removed", error.message(), checkpoint_remedy);
  }
  return notes;
}

void write_note(const std::string& folder, int rank, const WrittenPart& note) {
  const std::string text(reinterpret_cast<const char*>(&note), sizeof note);
  replace_file(folder, note_name(rank), text, checkpoint_remedy);
}

}  // namespace

BackgroundWrite::BackgroundWrite(std::string folder, int rank, int world, double timeout_s,
                                 Write write, Publish publish) {
  thread_ = std::thread([this, folder = std::move(folder), rank, world, timeout_s,
                         write = std::move(write), publish = std::move(publish)] {
    run_on_all_cores_of_process();
    const std::int64_t start_ns = monotonic_ns();
    try {
      write_note(folder, rank, write());
    } catch (...) {
      error_ = std::current_exception();
      return;
    }
    try {
      if (publish) publish(notes_of_all(folder, world, timeout_s, given_up_));
    } catch (...) {
      error_ = std::current_exception();
    }
    seconds_ = seconds_since(start_ns);
  });
}

BackgroundWrite::~BackgroundWrite() {
  if (thread_.joinable()) thread_.join();
}

double BackgroundWrite::finish() {
  if (thread_.joinable()) thread_.join();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  return seconds_;
}

}  // namespace shardmark
