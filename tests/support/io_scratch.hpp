// SPDX-License-Identifier: Apache-2.0
// What the tests of io/ share: a temporary folder, decks as text, and checks that a call throws
// with a message.
#pragma once

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include <core/error.hpp>
#include <io/deck/deck_reader.hpp>

namespace shardmark::test {

/// A new folder that is removed with its content at the end.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "shardmark-XXXXXX").string();
    if (!::mkdtemp(name.data())) throw std::runtime_error("mkdtemp failed: " + name);
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;  // a folder that remains is not a failure of the test
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  std::string path(const std::string& name = "") const {
    return name.empty() ? path_ : path_ + "/" + name;
  }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream out(path(name), std::ios::binary);
    out << text;
    out.close();
    if (!out) throw std::runtime_error("cannot write " + path(name));
    return path(name);
  }

 private:
  std::string path_;
};

inline std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A sound deck. Tests change one thing at a time by `--set`.
inline constexpr const char* good_deck = R"({
  "name": "good",  // comments are allowed
  "model": { "family": "gpt2", "layers": 2, "hidden": 32, "heads": 4, "sequence": 16,
             "vocab": 256 },
  "data": { "source": "markov" },
  "deepspeed": {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 3,
    "optimizer": { "type": "AdamW", "params": { "lr": 0.002, "betas": [0.9, 0.95] } },
    "zero_optimization": { "stage": 3, "reduce_bucket_size": 1000 }
  },
  "run": { "steps": 5 }
})";

/// Returns the message of the exception of type E that `call` throws; it is a test failure if
/// `call` does not throw one.
template<class E, class Call>
std::string message_of(Call&& call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another exception: " << error.what();
    return {};
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

inline void expect_says(const std::string& message, const std::vector<std::string>& parts) {
  EXPECT_EQ(message.find('\n'), std::string::npos) << "more than a line: " << message;
  for (const std::string& part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << "no '" << part << "' in: " << message;
}

}  // namespace shardmark::test
