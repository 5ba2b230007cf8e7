// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <core/error.hpp>
#include <io/files/durable_file.hpp>
#include <miniapp/checkpoint/background_write.hpp>
#include <miniapp/execute/scoped_timer.hpp>

namespace shardmark {
namespace {

constexpr std::chrono::milliseconds poll_interval{5};
constexpr const char* gave_up = "failed";

std::string note_name(int rank) {
  return fmt::format("part-{:05}", rank);
}

// Returns an empty text while there is no such file.
std::string read_note(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<PartNote> notes_of_all(const std::string& folder, int world, double timeout_s) {
  const std::int64_t start_ns = monotonic_ns();
  std::vector<PartNote> notes(static_cast<std::size_t>(world));
  for (int r = 0; r < world; ++r) {
    const std::string path = folder + "/" + note_name(r);
    std::string text = read_note(path);
    for (; text.empty(); text = read_note(path)) {
      if (static_cast<double>(monotonic_ns() - start_ns) * 1e-9 > timeout_s)
        throw IoError(
            fmt::format("{}: rank {} has not written its file after {} s: give a larger "
                        "comm.timeout_s, or a faster checkpoint.dir",
                        folder, r, timeout_s));
      std::this_thread::sleep_for(poll_interval);
    }
    if (text.size() != sizeof(PartNote))
      throw IoError(fmt::format("{}: rank {} could not write its file", folder, r));
    std::memcpy(&notes[static_cast<std::size_t>(r)], text.data(), sizeof(PartNote));
  }
  for (int r = 0; r < world; ++r) std::filesystem::remove(folder + "/" + note_name(r));
  return notes;
}

void write_note(const std::string& folder, int rank, const PartNote& note) {
  const std::string text(reinterpret_cast<const char*>(&note), sizeof note);
  replace_file(folder, note_name(rank), text, checkpoint_remedy);
}

// Saves rank 0 the wait for the time-out.
void report_failure(const std::string& folder, int rank) noexcept {
  try {
    replace_file(folder, note_name(rank), gave_up, checkpoint_remedy);
  } catch (const std::exception&) {  // the disk may be full; then the time-out ends the wait
  }
}

}  // namespace

BackgroundWrite::BackgroundWrite(std::string folder, int rank, int world, double timeout_s,
                                 Write write, Publish publish) {
  thread_ = std::thread([this, folder = std::move(folder), rank, world, timeout_s,
                         write = std::move(write), publish = std::move(publish)] {
    const std::int64_t start_ns = monotonic_ns();
    try {
      write_note(folder, rank, write());
    } catch (...) {
      error_ = std::current_exception();
      report_failure(folder, rank);
      return;
    }
    try {
      if (publish) publish(notes_of_all(folder, world, timeout_s));
    } catch (...) {
      error_ = std::current_exception();
    }
    seconds_ = static_cast<double>(monotonic_ns() - start_ns) * 1e-9;
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
