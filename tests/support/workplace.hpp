// SPDX-License-Identifier: Apache-2.0
// A temporary folder with a tiny deck and its data file: a GPT of 2 layers, for as many steps as a
// test can afford.
#pragma once

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>
#include <stdlib.h>

namespace shardmark::test {

using Json = nlohmann::json;

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

class Workplace {
 public:
  Workplace() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "shardmark-cli-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make " + pattern);
    folder_ = pattern;
    std::string text;
    for (int i = 0; i < 400; ++i) text += "the cat sat on the mat " + std::to_string(i * i) + "\n";
    write("text.bin", text);
  }
  ~Workplace() {
    std::error_code ignored;  // at worst a folder remains
    std::filesystem::remove_all(folder_, ignored);
  }
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string out() const { return path("out"); }

  /// Writes a file and returns its path.
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return path(name);
  }
  /// Writes the tiny deck at a stage, changed by a JSON merge patch, and returns its path.
  std::string deck(int stage = 3, const Json& patch = Json::object()) const {
    Json deck = {{"name", "tiny"},
                 {"model",
                  {{"family", "gpt2"},
                   {"layers", 2},
                   {"hidden", 32},
                   {"heads", 2},
                   {"sequence", 16},
                   {"vocab", 256}}},
                 {"data", {{"source", "file"}, {"path", "text.bin"}}},
                 {"deepspeed",
                  {{"train_micro_batch_size_per_gpu", 1},
                   {"zero_optimization", {{"stage", stage}, {"reduce_bucket_size", 20000}}}}},
                 {"run", {{"steps", 3}}},
                 {"comm", {{"timeout_s", 30}}},
                 {"memory", {{"device_gib", 1}, {"host_gib", 1}, {"allowance_mib", 4096}}}};
    deck.merge_patch(patch);
    return write("deck.json", deck.dump(2));
  }
  std::vector<std::string> run_args(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> args{"run", path("deck.json"), "--out", out()};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  Json report() const { return Json::parse(read_text(out() + "/report.json")); }
  std::string losses() const { return read_text(out() + "/losses.csv"); }

 private:
  std::filesystem::path folder_;
};

}  // namespace shardmark::test
