// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <core/plan/build/legal_program.hpp>
#include <core/plan/interpret/print.hpp>
#include <io/deepspeed/config.hpp>
#include <io/files/durable_file.hpp>
#include <miniapp/tools/submission/read/replan.hpp>

namespace shardmark {
namespace {

using namespace nlohmann::literals;

constexpr std::int64_t largest_world = 131'072;
constexpr std::string_view space_remedy = "free the space in TMPDIR";

// A folder that is removed again. Decks are read from files.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "shardmark-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr)
      fail_io(pattern, "cannot be made", std::generic_category().message(errno),
              "let TMPDIR name a folder that can be written");
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;  // at worst a folder remains
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The data are not part of a submission, and no plan depends on them; a deck is only read if its
// data file is there and long enough.
void provide_data(nlohmann::json& text, const std::string& folder) {
  if (!text.contains("data") || !text["data"].is_object() || !text["data"].contains("path")) return;
  constexpr std::int64_t longest = 1 << 24;
  const nlohmann::json sequence = text.value("/model/sequence"_json_pointer, nlohmann::json(0));
  const std::int64_t tokens = sequence.is_number_integer() ? sequence.get<std::int64_t>() : 0;
  const auto bytes = static_cast<std::size_t>(std::clamp<std::int64_t>(tokens, 0, longest) + 2);
  replace_file(folder, "data", std::string(bytes, ' '), space_remedy);
  text["data"]["path"] = "data";
}

}  // namespace

Replanned replan(const ReportReader& report) {
  const TemporaryFolder folder;
  nlohmann::json text = report.at("/deck");
  if (report.has("/fit/layers")) {  // the layers followed from memory that is not here
    text.at("model").erase("fit");
    text["model"]["layers"] = report.integer("/fit/layers");
  }
  provide_data(text, folder.path());
  replace_file(folder.path(), "deck.json", text.dump(2, ' ', true), space_remedy);
  Replanned result;
  result.loaded = read_deck(folder.path() + "/deck.json", {}, DeckUse::plan);
  const std::int64_t world = report.integer("/world");
  if (world < 1 || world > largest_world) throw ReportError("report.json: /world is out of bounds");
  Deck& deck = result.loaded.deck;
  Profile& profile = result.profile;
  profile.ranks_per_node = static_cast<int>(report.integer("/profile/ranks_per_node"));
  profile.workspace_cap_bytes = report.integer("/profile/workspace_cap_bytes");
  profile.staging_cap_bytes = report.integer("/profile/staging_cap_bytes");
  const auto ranks = static_cast<int>(world);
  const Batch batch = infer_batch(deck.zero, ranks, "deck.json");
  result.program = build_legal_program(deck, batch, ranks, 0, profile);
  result.text = print_text(result.program);
  return result;
}

}  // namespace shardmark
