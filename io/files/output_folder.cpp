// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <filesystem>
#include <stdexcept>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <core/error.hpp>
#include <io/files/durable_file.hpp>
#include <io/files/output_folder.hpp>

namespace shardmark {
namespace {

constexpr std::array<std::string_view, 3> our_files{report_file, page_file, losses_file};
constexpr std::string_view rank_suffix = ".et";

}  // namespace

bool is_run_file(std::string_view name) {
  return std::find(our_files.begin(), our_files.end(), name) != our_files.end();
}

bool is_file_of_each_rank(std::string_view name) {
  return name.ends_with(rank_suffix);
}

std::string rank_file(const std::string& name, int rank) {
  const std::string stem(name, 0,
                         name.size() - (is_file_of_each_rank(name) ? rank_suffix.size() : 0));
  return fmt::format("{}.{}{}", stem, rank, rank_suffix);
}

OutputFolder::OutputFolder(std::string path, std::string more)
    : path_(std::move(path)), more_(std::move(more)) {
  if (path_.empty()) throw IoError("--out: is empty: give a folder");
  std::error_code error;
  std::filesystem::create_directories(path_, error);
  std::error_code unknown;
  if (!std::filesystem::is_directory(path_, unknown)) {
    const bool file = std::filesystem::exists(path_, unknown);
    fail_io(path_, "cannot be created", file || !error ? "a file has that name" : error.message(),
            output_remedy);
  }
  std::vector<std::string> files(our_files.begin(), our_files.end());
  if (!more_.empty()) files.push_back(more_);
  for (const std::string& name : files)
    if (const std::string file = path_ + "/" + name; std::filesystem::is_directory(file, error))
      fail_io(file, "cannot be replaced", "is a folder", output_remedy);
  constexpr std::size_t trial_bytes = 65536;  // about as much as a short run writes
  TempFile(temp_name(path_, "trial"), output_remedy).write(std::string(trial_bytes, ' '));
}

bool OutputFolder::ours(std::string_view name) const {
  if (is_run_file(name)) return true;
  if (is_file_of_each_rank(more_)) {
    const std::string_view stem =
        std::string_view(more_).substr(0, more_.size() - rank_suffix.size());
    return name.starts_with(stem) && name.substr(stem.size()).starts_with('.');
  }
  return !more_.empty() && name == more_;
}

void OutputFolder::replace(const std::string& name, std::string_view content) const {
  bool given = false;
  replace_in_pieces(name, [&] { return std::exchange(given, true) ? "" : std::string(content); });
}

void OutputFolder::replace_in_pieces(const std::string& name,
                                     const std::function<std::string()>& next) const {
  if (!ours(name)) throw std::logic_error(name + " is not a file of the run");
  TempFile file(temp_name(path_, name), output_remedy);
  for (std::string piece = next(); !piece.empty(); piece = next()) file.append(piece);
  file.write({});
  file.rename_to(path_ + "/" + name);
  flush_folder(path_, output_remedy);
}

std::string losses_csv(std::span<const LossRow> rows) {
  std::string text = "step,loss,grad_norm,lr,loss_scale,skipped,seconds\n";
  for (const LossRow& r : rows)
    text += fmt::format("{},{},{},{},{},{},{}\n", r.step, r.loss, r.grad_norm, r.lr, r.loss_scale,
                        r.skipped ? 1 : 0, r.seconds);
  return text;
}

}  // namespace shardmark
