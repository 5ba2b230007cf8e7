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
  for (const char* name : {report_file, losses_file})
    if (std::filesystem::is_directory(path_ + "/" + name, error))
      fail_io(path_ + "/" + name, "cannot be replaced", "is a folder", remedy);
  constexpr std::size_t trial_bytes = 65536;  // about what a short run will write
  TempFile(temp_name(path_, "trial"), remedy).write(std::string(trial_bytes, ' '));
}

void OutputFolder::replace(const std::string& name, std::string_view content) const {
  constexpr std::array ours{std::string_view(report_file), std::string_view(losses_file)};
  if (std::find(ours.begin(), ours.end(), name) == ours.end())
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
