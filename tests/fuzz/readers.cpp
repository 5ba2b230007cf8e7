// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <vector>

#include <unistd.h>

#include <core/error.hpp>
#include <io/archive/archive.hpp>
#include <io/checkpoint/manifest.hpp>
#include <io/data/tokens.hpp>
#include <io/deck/deck_reader.hpp>
#include <io/files/hash.hpp>
#include <io/json/json_source.hpp>
#include <io/keys/overrides.hpp>
#include <io/machine/machine_file.hpp>
#include <tests/fuzz/readers.hpp>

namespace shardmark::test {
namespace {

// An error's text is one line and does not grow with what was read.
void require_one_line(const std::string& what) {
  if (!what.empty() && what.size() < 2000 && what.find('\n') == std::string::npos) return;
  throw std::logic_error("not one short line: " + what);
}

template<class Body>
void expect_errors_only(Body body) {
  try {
    body();
  } catch (const DeckError& e) {
    require_one_line(e.what());
  } catch (const IoError& e) {
    require_one_line(e.what());
  } catch (const JsonSyntaxError& e) {
    require_one_line(e.what());
  }
}

// A file of this process, in a folder that is removed at its end.
class InputFile {
 public:
  InputFile() : folder_("/tmp/shardmark-fuzz-" + std::to_string(::getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~InputFile() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  std::string write(std::string_view bytes) const {
    std::ofstream(path(), std::ios::binary).write(bytes.data(), std::ssize(bytes));
    return path();
  }

 private:
  std::string path() const { return folder_ + "/input.json"; }
  std::string folder_;
};

const InputFile& input_file() {
  static const InputFile file;
  return file;
}

void read_as_deck(std::string_view bytes) {
  const std::string path = input_file().write(bytes);
  expect_errors_only([&] { (void)read_deck(path, {}, DeckUse::plan); });
}

// The deck names the input, as a file beside it.
void read_beside(Json deck, const char* section, const char* key, std::string_view bytes) {
  const std::string path = input_file().write(bytes);
  (key == nullptr ? deck[section] : deck[section][key]) = path;
  expect_errors_only([&] { (void)read_deck(deck.dump(), {}, DeckUse::plan, 8); });
}

Json small_deck() {
  return {{"name", "fuzz"},
          {"model",
           {{"family", "decoder"},
            {"layers", 2},
            {"hidden", 16},
            {"heads", 2},
            {"ffn", 32},
            {"sequence", 8},
            {"vocab", 64}}},
          {"deepspeed", {{"train_micro_batch_size_per_gpu", 1}}},
          {"run", {{"steps", 1}}}};
}

// A model's config of Hugging Face, an adapter's config of PEFT, and a DeepSpeed config, under the
// arguments of a trainer that fills "auto".
void read_as_config(std::string_view bytes) {
  read_beside(small_deck(), "model", nullptr, bytes);
}
void read_as_adapter(std::string_view bytes) {
  read_beside(small_deck(), "model", "adapter", bytes);
}
void read_as_deepspeed(std::string_view bytes) {
  Json deck = small_deck();
  read_beside(deck, "deepspeed", nullptr, bytes);
  deck["hf"] = Json::object();
  read_beside(deck, "deepspeed", nullptr, bytes);
}

void read_as_machine(std::string_view bytes) {
  const std::string path = input_file().write(bytes);
  expect_errors_only([&] {
    const Machine machine = read_machine_file(path);
    (void)check_machine(machine);
    (void)machine_text(machine);
  });
}

// The archive of a submission.
void read_as_archive(std::string_view bytes) {
  const std::string path = input_file().write(bytes);
  expect_errors_only([&] { (void)read_archive(path); });
}

void read_as_hjson(std::string_view bytes) {
  expect_errors_only([&] { (void)parse_json(bytes, "input", JsonRules::deepspeed); });
  expect_errors_only([&] { (void)parse_json(bytes, "input", JsonRules::deck); });
}

void read_as_override(std::string_view bytes) {
  expect_errors_only([&] {
    Json deck = {{"model", {{"layers", 2}}}, {"list", {1, {{"a", 2}}}}, {"name", "x"}};
    apply_override(deck, parse_override(std::string(bytes)));
  });
}

// As it is, and as the body of a manifest whose checksum is right.
void read_as_manifest(std::string_view bytes) {
  expect_errors_only([&] { (void)parse_manifest(std::string(bytes), "input"); });
  expect_errors_only([&] {
    const Json body = parse_json(bytes, "input", JsonRules::deck);
    const Json whole = {{"format", 1}, {"xxh3", hash_hex(body.dump())}, {"checkpoint", body}};
    (void)parse_manifest(whole.dump(), "input");
  });
}

// The first two bytes choose the length of a sample and the step.
void read_as_tokens(std::string_view bytes) {
  if (bytes.size() < 2) return;
  Deck deck;
  deck.data.source = DataSource::file;
  deck.data.path = input_file().write(bytes.substr(2));
  deck.model.sequence = 1 + static_cast<unsigned char>(bytes[0]);
  deck.model.vocab = 256;
  expect_errors_only([&] {
    const auto source = make_token_source(deck);
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(3 * (deck.model.sequence + 1)));
    source->fill(static_cast<unsigned char>(bytes[1]), 5, 3, tokens.data());
    for (const std::int32_t token : tokens)
      if (token < 0 || token > 255) throw std::logic_error("a token beyond the vocabulary");
  });
}

}  // namespace

const std::map<std::string, Reader>& readers() {
  static const std::map<std::string, Reader> all{
      {"deck", read_as_deck},         {"hjson", read_as_hjson},
      {"override", read_as_override}, {"manifest", read_as_manifest},
      {"tokens", read_as_tokens},     {"config", read_as_config},
      {"adapter", read_as_adapter},   {"deepspeed", read_as_deepspeed},
      {"machine", read_as_machine},   {"archive", read_as_archive}};
  return all;
}

}  // namespace shardmark::test
