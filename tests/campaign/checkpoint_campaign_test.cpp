// SPDX-License-Identifier: Apache-2.0
// (c) Changes of a checkpoint: random ones of its files, and structural ones of its manifest with a
// checksum that fits. `ckpt verify` says yes or no in words, in bounded time and memory; if it says
// yes after a random change, the values are still those that were written.
#include <filesystem>

#include <io/files/hash.hpp>
#include <tests/campaign/hostile_json.hpp>

namespace shardmark::test::checkpoint_campaign_test {
namespace {

namespace fs = std::filesystem;

class CheckpointChanges {
 public:
  explicit CheckpointChanges(Campaign& campaign) : campaign_(campaign) {
    const Json none = Json::object();
    write("alone", 3, none, none);
    write("shared", 3, {{"layout", "shared"}}, none);
    EXPECT_EQ(sources_[0].values, sources_[1].values);
    // Ranks that divide layers, samples or experts write parts of the model, which the manifest
    // describes by views.
    const Json llama = {{"family", "llama"}, {"heads", 4}, {"kv_heads", 2}, {"ffn", 64}};
    const Json mixture = {{"family", "decoder"},
                          {"kv_heads", 2},
                          {"ffn", 48},
                          {"routing", "balanced"},
                          {"moe", {{"experts", 4}, {"per_token", 2}, {"ffn", 24}}}};
    const Json layers = {{"tensor_parallel", {{"autotp_size", 2}}}};
    write("layers", 2, none, {{"model", llama}, {"deepspeed", layers}});
    write("layers-shared", 2, {{"layout", "shared"}}, {{"model", llama}, {"deepspeed", layers}});
    write("samples", 2, none, {{"model", llama}, {"deepspeed", {{"sequence_parallel_size", 2}}}});
    write("experts", 2, none,
          {{"model", mixture},
           {"deepspeed", {{"expert_parallel", {{"enabled", true}, {"autoep_size", 2}}}}}});
  }

  void run_case() {
    const Source& source = campaign_.one_of(sources_);
    const std::string folder = place_.path("changed/step-00000002");
    fs::remove_all(place_.path("changed"));
    fs::copy(place_.path(source.name), place_.path("changed"), fs::copy_options::recursive);
    const bool structural = campaign_.random(2) == 0;
    const std::string what = structural ? change_manifest(folder) : change_file(folder);
    campaign_.run_case(source.name + ": " + what,
                       [&] { expect_judged(folder, structural ? nullptr : &source.values); });
  }

 private:
  // A run whose second checkpoint is changed, and the values of all parameters in it.
  struct Source {
    std::string name, values;
  };

  void write(const std::string& name, int ranks, const Json& section, const Json& more) {
    Json all = {{"dir", name}, {"every", 2}};
    all.update(section);
    Json patch = more;
    patch["checkpoint"] = all;
    patch["run"]["steps"] = 2;
    place_.deck(2, patch);
    const Outcome o = run({.args = place_.run_args(), .ranks = ranks});
    EXPECT_EQ(o.status, 0) << name << ": " << o.out << o.err;
    sources_.push_back({name, values_of(place_.path(name + "/step-00000002"))});
  }

  // `values` are those that a checkpoint must have to be accepted; null: any.
  void expect_judged(const std::string& folder, const std::string* values) {
    const Outcome o = run({.args = {"ckpt", "verify", folder},
                           .memory_limit_bytes = std::int64_t{1} << 30,
                           .cpu_limit_s = 10});
    SCOPED_TRACE(o.out + o.err);
    EXPECT_FALSE(o.timed_out);
    EXPECT_TRUE(o.status == 0 || o.status == 4) << o.status;
    // One line for each dataset that is damaged.
    const auto lines = lines_of(o.err);
    if (o.status == 4) {
      EXPECT_FALSE(lines.empty());
    }
    for (const std::string& line : lines) EXPECT_TRUE(line.starts_with("shardmark: ")) << line;
    if (o.status == 0 && values != nullptr) {
      EXPECT_TRUE(values_of(folder) == *values) << "accepted with other values";
    }
    sound_ += o.status == 0 ? 1 : 0;
  }

  // The values of all parameters, from the safetensors file of `ckpt consolidate`.
  std::string values_of(const std::string& folder) {
    const Outcome o = run({.args = {"ckpt", "consolidate", folder, "--out", place_.path("whole")}});
    EXPECT_EQ(o.status, 0) << o.err;
    const std::string all = read_text(place_.path("whole/step-00000002.safetensors"));
    std::uint64_t header = 0;
    std::memcpy(&header, all.data(), sizeof header);
    return all.substr(8 + header);
  }

  std::string change_file(const std::string& folder) {
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    const std::string file = campaign_.one_of(files), other = campaign_.one_of(files);
    std::string text = read_text(file);
    const std::int64_t at = campaign_.random(static_cast<std::int64_t>(text.size()));
    const auto i = static_cast<std::size_t>(at);
    const std::int64_t kind = campaign_.random(9);
    const std::string name = fs::path(file).filename().string() + ", ";
    switch (kind) {
      case 0:
      case 1: text[i] = static_cast<char>(text[i] ^ (1 << campaign_.random(8))); break;
      case 2: text.resize(i); break;
      case 3:
        text += std::string(static_cast<std::size_t>(1 + campaign_.random(5000)), '\x5a');
        break;
      case 4:
        for (std::size_t j = i; j < std::min(text.size(), i + 4096); ++j) text[j] = 0;
        break;
      case 5:
        for (std::size_t j = i; j < std::min(text.size(), i + 64); ++j)
          text[j] = static_cast<char>(campaign_.random(256));
        break;
      case 6: fs::remove(file); return name + "removed";
      case 7:
        if (file != other) {
          fs::rename(file, folder + "/x");
          fs::rename(other, file);
          fs::rename(folder + "/x", other);
        }
        return name + "exchanged with " + fs::path(other).filename().string();
      default:
        fs::remove(file);
        fs::create_directory(file);
        return name + "now a folder";
    }
    std::ofstream(file, std::ios::binary) << text;
    return name + "change " + std::to_string(kind) + " at " + std::to_string(at);
  }

  std::string change_manifest(const std::string& folder) {
    const std::string path = folder + "/manifest.json";
    Json o = Json::parse(read_text(path));
    std::string what;
    const std::int64_t changes = 1 + campaign_.random(2);
    for (std::int64_t i = 0; i < changes; ++i) what += change_structure(campaign_, o["checkpoint"]);
    o["xxh3"] = hash_hex(o["checkpoint"].dump());
    std::ofstream(path, std::ios::binary) << o.dump();
    return what;
  }

  Campaign& campaign_;
  const Workplace place_;
  std::vector<Source> sources_;
  int sound_ = 0;
};

TEST(CampaignCheckpoint, AnyChangeIsJudged) {
  Campaign campaign("checkpoints", 150);
  CheckpointChanges changes(campaign);
  while (campaign.more()) changes.run_case();
}

}  // namespace
}  // namespace shardmark::test::checkpoint_campaign_test
