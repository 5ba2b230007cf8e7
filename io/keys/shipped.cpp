// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>

#include <fmt/core.h>

#include <core/error.hpp>
#include <core/text.hpp>
#include <io/keys/nearest.hpp>
#include <io/keys/shipped.hpp>

namespace shardmark {
namespace {

namespace fs = std::filesystem;

// A name of a shipped file has neither a folder nor a suffix; anything else is a path.
bool may_be_name(const std::string& text) {
  return !text.empty() && text.find('/') == std::string::npos && !text.ends_with(".json");
}

}  // namespace

std::string shipped_folder() {
  std::error_code none;
  const fs::path bin = fs::read_symlink("/proc/self/exe", none).parent_path();
  if (none) return "";
  for (const char* candidate : {"../share/shardmark/inputs", "../inputs"}) {
    const fs::path folder = (bin / candidate).lexically_normal();
    if (fs::is_directory(folder, none)) return folder.string();
  }
  return "";
}

std::vector<std::string> shipped_files(const ShippedKind& kind) {
  std::vector<std::string> paths;
  const std::string folder = shipped_folder();
  if (folder.empty()) return paths;
  std::error_code none;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(fs::path(folder) / kind.folder, none))
    if (entry.path().extension() == ".json") paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

FoundFile find_shipped(const std::string& text, const ShippedKind& kind) {
  std::error_code none;
  if (fs::exists(text, none)) return {text};
  std::vector<std::string> names;
  for (const std::string& path : shipped_files(kind)) {
    names.push_back(fs::path(path).stem().string());
    if (names.back() == text) return {path, true};
  }
  if (!may_be_name(text)) {
    const std::string meant = did_you_mean(name_of_file(text), names);
    // Without one, the reader says what is wrong with the path.
    if (meant.empty() || none) return {text};
    throw DeckError(fmt::format("{}: no such file; as a shipped {}, {} {}", text, kind.what, meant,
                                kind.listing));
  }
  const std::string meant = did_you_mean(text, names);
  throw DeckError(fmt::format("{}: no such file, and no shipped {} has this name: {}{}{}", text,
                              kind.what, meant, meant.empty() ? "" : " ", kind.listing));
}

}  // namespace shardmark
