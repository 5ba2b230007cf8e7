// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <filesystem>
#include <stdexcept>

#include <fmt/format.h>

#include <core/error.hpp>
#include <io/durable_file.hpp>
#include <io/output.hpp>

namespace shardmark {
namespace {

constexpr std::string_view remedy = "free the space, change the permissions, or give another --out";

constexpr std::array<std::string_view, 3> our_files{report_file, page_file, losses_file};

}  // namespace

OutputFolder::OutputFolder(std::string path) : path_(std::move(path)) {
  if (path_.empty()) throw IoError("--out: is empty: give a folder");
  std::error_code error;
  std::filesystem::create_directories(path_, error);
  std::error_code unknown;
  if (!std::filesystem::is_directory(path_, unknown)) {
    const bool file = std::filesystem::exists(path_, unknown);
    fail_io(path_, "cannot be made",
            file || !error ? "a file of that name is there" : error.message(), remedy);
  }
  for (const std::string_view name : our_files)
    if (const std::string file = path_ + "/" + std::string(name);
        std::filesystem::is_directory(file, error))
      fail_io(file, "cannot be replaced", "is a folder", remedy);
  constexpr std::size_t trial_bytes = 65536;  // about what a short run will write
  TempFile(temp_name(path_, "trial"), remedy).write(std::string(trial_bytes, ' '));
}

void OutputFolder::replace(const std::string& name, std::string_view content) const {
  if (std::find(our_files.begin(), our_files.end(), name) == our_files.end())
    throw std::logic_error(name + " is not a file of ours");
  replace_file(path_, name, content, remedy);
}

std::string losses_csv(std::span<const LossRow> rows) {
  std::string text = "step,loss,grad_norm,lr,loss_scale,skipped,seconds\n";
  for (const LossRow& r : rows)
    text += fmt::format("{},{},{},{},{},{},{}\n", r.step, r.loss, r.grad_norm, r.lr, r.loss_scale,
                        r.skipped ? 1 : 0, r.seconds);
  return text;
}

}  // namespace shardmark
