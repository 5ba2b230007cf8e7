// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <core/error.hpp>
#include <io/checkpoint/folder.hpp>
#include <io/checkpoint/manifest.hpp>
#include <io/files/durable_file.hpp>

namespace shardmark {
namespace {

namespace fs = std::filesystem;

constexpr const char* latest_file = "latest";
constexpr const char* temp_prefix = ".writing.";
constexpr const char* old_prefix = ".removing.";
constexpr std::string_view folder_remedy =
    "free the space, change the permissions, or give another checkpoint.dir";

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

bool is_checkpoint(const std::string& dir, const std::string& name) {
  std::error_code missing;
  return fs::exists(dir + "/" + name + "/" + manifest_file, missing);
}

void rename_or_fail(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0)
    fail_io(to, "cannot be renamed to", std::strerror(errno), folder_remedy);
}

// The checkpoint is renamed first, because a half-removed checkpoint must not look like a published
// one.
void remove_checkpoint(const std::string& dir, const std::string& name) {
  const std::string hidden = dir + "/" + old_prefix + name;
  std::error_code error;
  fs::remove_all(hidden, error);
  rename_or_fail(dir + "/" + name, hidden);
  flush_folder(dir, folder_remedy);
  fs::remove_all(hidden, error);
  if (error) fail_io(hidden, "cannot be removed", error.message(), folder_remedy);
}

}  // namespace

std::string checkpoint_name(std::int64_t step) {
  return fmt::format("step-{:08}", step);
}

std::vector<std::string> published_checkpoints(const std::string& dir) {
  struct Entry {
    fs::file_time_type written;
    std::string name;
  };
  std::vector<Entry> entries;
  std::error_code error;
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.empty() || name[0] == '.' || !is_checkpoint(dir, name)) continue;
    std::error_code gone;
    const auto written = fs::last_write_time(it->path() / manifest_file, gone);
    if (!gone) entries.push_back({written, name});
  }
  if (error && error != std::errc::no_such_file_or_directory)
    fail_io(dir, "cannot be listed", error.message(), folder_remedy);
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.written != b.written ? a.written < b.written : a.name < b.name;
  });
  std::vector<std::string> names;
  for (Entry& e : entries) names.push_back(std::move(e.name));
  return names;
}

std::optional<std::string> latest_checkpoint(const std::string& dir) {
  if (const std::string named = first_line(dir + "/" + latest_file);
      !named.empty() && is_checkpoint(dir, named))
    return named;
  const auto names = published_checkpoints(dir);
  return names.empty() ? std::nullopt : std::optional(names.back());
}

CheckpointWriterFolder::CheckpointWriterFolder(std::string dir)
    : dir_(std::move(dir)), lock_(dir_, "another run", "checkpoint.dir", folder_remedy) {
  try {
    for (const fs::directory_entry& entry : fs::directory_iterator(dir_)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with(temp_prefix) || name.starts_with(old_prefix))
        fs::remove_all(entry.path());
    }
  } catch (const fs::filesystem_error& e) {
    fail_io(dir_, "cannot be cleaned", e.code().message(), folder_remedy);
  }
}

std::string CheckpointWriterFolder::temp_path(const std::string& name) const {
  // The process number makes the name unique: ranks that outlive the writer of a killed run still
  // use its folder, not the folder of the next run.
  return fmt::format("{}/{}{}.{}", dir_, temp_prefix, name, ::getpid());
}

std::string CheckpointWriterFolder::begin(const std::string& name) {
  const std::string path = temp_path(name);
  std::error_code error;
  fs::remove_all(path, error);
  if (!error) fs::create_directory(path, error);
  if (error) fail_io(path, "cannot be created", error.message(), folder_remedy);
  return path;
}

void CheckpointWriterFolder::publish(const std::string& name, const std::string& manifest) {
  const std::string temp = temp_path(name), final = dir_ + "/" + name;
  // Also flushes the folder that contains all files.
  replace_file(temp, manifest_file, manifest, folder_remedy);
  // Checkpoints are ordered by age, but the times that a file system keeps may be as coarse as a
  // clock tick.
  std::error_code refused;
  fs::last_write_time(temp + "/" + manifest_file, fs::file_time_type::clock::now(), refused);
  if (is_checkpoint(dir_, name)) {
    // A run that resumed from an earlier step writes the same step again. The old and the new
    // checkpoint are exchanged in one operation.
    if (::renameat2(AT_FDCWD, temp.c_str(), AT_FDCWD, final.c_str(), RENAME_EXCHANGE) != 0)
      fail_io(final, "cannot be replaced", std::strerror(errno), folder_remedy);
  } else {
    rename_or_fail(temp, final);
  }
  flush_folder(dir_, folder_remedy);
  replace_file(dir_, latest_file, name + "\n", folder_remedy);
}

void CheckpointWriterFolder::clean_up(const std::string& name, std::int64_t keep) {
  abandon(name);
  if (keep == 0) return;
  auto names = published_checkpoints(dir_);
  std::erase(names, name);
  const auto others = static_cast<std::size_t>(keep - 1);
  for (std::size_t i = 0; i + others < names.size(); ++i) remove_checkpoint(dir_, names[i]);
}

void CheckpointWriterFolder::abandon(const std::string& name) {
  std::error_code ignored;  // the next writer removes what remains
  fs::remove_all(temp_path(name), ignored);
}

}  // namespace shardmark
