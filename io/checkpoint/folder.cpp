// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <core/error.hpp>
#include <io/checkpoint/folder.hpp>
#include <io/checkpoint/manifest.hpp>
#include <io/files/durable_file.hpp>
#include <io/files/regular_file.hpp>

namespace shardmark {
namespace {

namespace fs = std::filesystem;

constexpr const char* latest_file = "latest";
constexpr const char* temp_prefix = ".writing.";
constexpr const char* old_prefix = ".removing.";
constexpr std::string_view folder_remedy =
    "free the space, change the permissions, or give another checkpoint.dir";
constexpr std::string_view latest_remedy =
    "name a checkpoint as checkpoint.resume, or give \"newest-good\" to go on from the newest that "
    "is whole";

constexpr std::int64_t max_name_bytes = 256;

// Whether it can be the name of a published checkpoint.
bool is_name(const std::string& name) {
  const auto bad = [](unsigned char c) { return c < ' ' || c == 127 || c == '/'; };
  return !name.empty() && name[0] != '.' && std::none_of(name.begin(), name.end(), bad);
}

// What `latest` names, as far as it can be the name of a checkpoint; nothing: there is no `latest`.
std::optional<std::string> named_latest(const std::string& dir) {
  const std::string path = dir + "/" + latest_file;
  const auto text = read_regular_file_if_there(path, max_name_bytes, latest_remedy);
  if (!text) return std::nullopt;
  std::string name = text->substr(0, text->find('\n'));
  if (!is_name(name))
    fail_io(path, "is damaged", "it must be the name of a checkpoint in this folder",
            latest_remedy);
  return name;
}

bool is_checkpoint(const std::string& dir, const std::string& name) {
  std::error_code missing;
  return fs::exists(dir + "/" + name + "/" + manifest_file, missing);
}

void rename_or_fail(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0)
    fail_io(to, "cannot be renamed to", std::strerror(errno), folder_remedy);
}

// What is left of a checkpoint, and nothing else: it may be removed.
bool is_remains(const std::string& folder) {
  std::error_code error;
  if (fs::symlink_status(folder, error).type() != fs::file_type::directory) return false;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const fs::path& file = it->path();
    if (file.extension() != ".h5" && file.filename() != manifest_file) return false;
  }
  return !error;
}

// Out of readers' sight first: a checkpoint that is half removed must not look like one.
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

std::optional<std::int64_t> step_of_name(const std::string& name) {
  constexpr std::string_view prefix = "step-";
  if (!name.starts_with(prefix)) return std::nullopt;
  std::int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + prefix.size(), end, step);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return step;
}

std::vector<std::string> published_checkpoints(const std::string& dir) {
  std::vector<std::pair<fs::file_time_type, std::string>> entries;
  std::error_code error;
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!is_name(name) || !is_checkpoint(dir, name)) continue;
    std::error_code gone;
    const auto written = fs::last_write_time(it->path() / manifest_file, gone);
    if (!gone) entries.emplace_back(written, name);
  }
  if (error && error != std::errc::no_such_file_or_directory)
    fail_io(dir, "cannot be listed", error.message(), folder_remedy);
  std::sort(entries.begin(), entries.end());
  std::vector<std::string> names;
  for (auto& [written, name] : entries) names.push_back(std::move(name));
  return names;
}

std::optional<std::string> latest_checkpoint(const std::string& dir) {
  if (auto named = named_latest(dir)) {
    if (is_checkpoint(dir, *named)) return named;
    std::error_code unknown;
    const bool there = fs::exists(dir + "/" + *named, unknown);
    fail_io(dir + "/" + latest_file, "names " + *named,
            there ? "it has no manifest.json" : "it is not there", latest_remedy);
  }
  const auto names = published_checkpoints(dir);
  return names.empty() ? std::nullopt : std::optional(names.back());
}

std::vector<std::string> checkpoints_to_try(const std::string& dir) {
  auto names = published_checkpoints(dir);
  std::reverse(names.begin(), names.end());
  std::optional<std::string> named;
  try {
    named = named_latest(dir);
  } catch (const IoError&) {  // then it says nothing
  }
  if (const auto it = std::find(names.begin(), names.end(), named.value_or("")); it != names.end())
    names.erase(names.begin(), it);
  return names;
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
  std::string path = temp_path(name);
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
  std::error_code missing;
  if (fs::exists(fs::symlink_status(final, missing))) {
    if (!is_checkpoint(dir_, name) && !is_remains(final))
      fail_io(final, "cannot be replaced", "it is not a checkpoint", "remove or rename it");
    // A run that went back writes the same step again: the two change places at once.
    if (::renameat2(AT_FDCWD, temp.c_str(), AT_FDCWD, final.c_str(), RENAME_EXCHANGE) != 0)
      fail_io(final, "cannot be replaced", std::strerror(errno), folder_remedy);
  } else {
    rename_or_fail(temp, final);
  }
  flush_folder(dir_, folder_remedy);
  replace_file(dir_, latest_file, name + "\n", folder_remedy);
}

void CheckpointWriterFolder::clean_up(const std::string& name, std::int64_t keep,
                                      const std::vector<std::string>& damaged) {
  abandon(name);
  if (keep == 0) return;
  auto names = published_checkpoints(dir_);
  std::erase(names, name);
  std::stable_partition(names.begin(), names.end(), [&](const std::string& n) {
    return std::find(damaged.begin(), damaged.end(), n) != damaged.end();
  });
  const auto others = static_cast<std::size_t>(keep - 1);
  for (std::size_t i = 0; i + others < names.size(); ++i) remove_checkpoint(dir_, names[i]);
}

void CheckpointWriterFolder::abandon(const std::string& name) {
  std::error_code ignored;  // the next writer removes what remains
  fs::remove_all(temp_path(name), ignored);
}

}  // namespace shardmark
