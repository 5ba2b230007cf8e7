// SPDX-License-Identifier: Apache-2.0
// The reader drives nlohmann's SAX parser, because its DOM parser silently keeps the last of two
// equal keys. Lines are counted in the iterator that feeds the parser.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>
#include <vector>

#include <fmt/core.h>

#include <core/error.hpp>
#include <core/printable.hpp>
#include <io/json/hjson.hpp>
#include <io/json/json_source.hpp>
#include <io/json/yaml.hpp>

namespace shardmark {

namespace {

constexpr std::size_t max_depth = 64;
// Each takes 16 bytes or more; the parts of a checkpoint of the largest models have half as many.
constexpr std::size_t max_values = std::size_t{8} << 20;
constexpr std::size_t max_reason_chars = 200;

// An input iterator over text. It counts lines as the parser consumes them.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, int* line) : at_(at), line_(line) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    if (*at_ == '\n') ++*line_;
    ++at_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  int* line_;
};

// Builds the value, and refuses duplicate keys and deep nesting where they occur.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Builder(const std::string& name, std::string_view text, const int* line)
      : name_(name), text_(text), line_(line) {}

  bool null() override { return put(nullptr); }
  bool boolean(bool v) override { return put(v); }
  bool number_integer(number_integer_t v) override { return put(v); }
  bool number_unsigned(number_unsigned_t v) override { return put(v); }
  bool number_float(number_float_t v, const string_t& digits) override {
    // An integer beyond 64 bits is treated as the largest integer, not as a fraction.
    const bool whole = digits.find_first_not_of("-0123456789") == string_t::npos;
    if (!whole || digits.empty()) return put(v);
    return v < 0 ? put(std::numeric_limits<std::int64_t>::min())
                 : put(std::numeric_limits<std::uint64_t>::max());
  }
  bool string(string_t& v) override { return put(std::move(v)); }
  bool binary(binary_t& v) override { return put(std::move(v)); }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& v) override {
    Level& level = levels_.back();
    level.key = std::move(v);
    if (level.node->contains(level.key)) refuse_second(name_, path(), *line_);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    throw JsonSyntaxError(describe(position, error.what()));
  }

  Json take() { return std::move(root_); }

 private:
  struct Level {
    Json* node;
    std::string key;
  };

  template<class T>
  bool put(T&& v) {
    (void)place(Json(std::forward<T>(v)));
    return true;
  }

  Json* place(Json v) {
    if (++values_ > max_values)
      throw DeckError(fmt::format("{}: line {}: more than {} values: make it smaller", name_,
                                  *line_, max_values));
    if (levels_.empty()) {
      root_ = std::move(v);
      return &root_;
    }
    Level& level = levels_.back();
    if (level.node->is_array()) {
      level.node->push_back(std::move(v));
      return &level.node->back();
    }
    Json& slot = (*level.node)[level.key];
    slot = std::move(v);
    return &slot;
  }

  bool open(Json v) {
    if (levels_.size() == max_depth)
      throw DeckError(fmt::format("{}: line {}: nested deeper than {} levels: flatten it", name_,
                                  *line_, max_depth));
    levels_.push_back({place(std::move(v)), {}});
    return true;
  }

  bool close() {
    levels_.pop_back();
    return true;
  }

  std::string path() const {
    std::string result;
    for (const Level& level : levels_) {
      if (!result.empty()) result += '.';
      // The last element of an array is the one that is being read.
      result += level.node->is_array() ? std::to_string(level.node->size() - 1) : level.key;
    }
    return result;
  }

  // Returns nlohmann's text without its prefix, which counts lines differently.
  std::string describe(std::size_t position, std::string_view what) const {
    const std::size_t at = std::min(position == 0 ? 0 : position - 1, text_.size());
    std::string_view reason = what;
    if (const auto cut = reason.find("] "); cut != std::string_view::npos)
      reason.remove_prefix(cut + 2);
    if (const auto cut = reason.find(": "); cut != std::string_view::npos)
      reason.remove_prefix(cut + 2);
    std::string clean;
    const std::string_view rest = reason.size() > max_reason_chars ? "..." : "";
    reason = reason.substr(0, max_reason_chars);
    for (const char c : reason) clean += (c >= ' ' && c < 127) ? c : '?';
    return at_place(text_, at, fmt::format("not JSON: {}{}", clean, rest));
  }

  const std::string& name_;
  std::string_view text_;
  const int* line_;
  Json root_;
  std::vector<Level> levels_;
  std::size_t values_ = 0;
};

}  // namespace

Json parse_json(std::string_view text, const std::string& name, JsonRules rules) {
  if (rules == JsonRules::yaml) return parse_yaml(std::string(text), name);
  int line = 1;
  Builder builder(name, text, &line);
  if (rules == JsonRules::deepspeed) {
    parse_hjson(text, builder, line);
    return builder.take();
  }
  const CountingIterator first(text.data(), &line), last(text.data() + text.size(), &line);
  if (!Json::sax_parse(first, last, &builder, nlohmann::detail::input_format_t::json, true, true))
    throw JsonSyntaxError("not JSON");
  return builder.take();
}

std::string at_place(std::string_view text, std::size_t position, std::string_view what) {
  const std::string_view before = text.substr(0, position);
  const std::size_t last = before.rfind('\n');
  return fmt::format("line {}, column {}: {}", 1 + std::count(before.begin(), before.end(), '\n'),
                     position - (last == std::string_view::npos ? 0 : last + 1) + 1, what);
}

void refuse_second(const std::string& name, const std::string& key, int line) {
  throw DeckError(fmt::format("{}: {}: given twice, the second time in line {}: remove one of them",
                              name, brief_key(key), line));
}

std::string brief(const Json& value) {
  return printable(value.dump(-1, ' ', true, Json::error_handler_t::replace), 80);
}

std::string brief_key(std::string_view key) {
  return printable(key, 200);
}

namespace {

constexpr std::uintmax_t max_json_bytes = std::uintmax_t{64} << 20;

[[noreturn]] void refuse_file(const std::string& path, std::string_view what) {
  constexpr std::size_t max_chars = 1000;
  throw DeckError(fmt::format("{}: {}", printable(path, max_chars), what));
}

std::string read_text(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found)
    refuse_file(path, "no such file: check the path");
  if (std::filesystem::is_directory(status))
    refuse_file(path, "is a folder: name the JSON file in it");
  if (error)
    refuse_file(path, fmt::format("{}: check the path and its permissions", error.message()));
  if (!std::filesystem::is_regular_file(status))
    refuse_file(path, "is not a regular file: every rank must be able to read it");

  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in)
    refuse_file(path,
                fmt::format("cannot be read: {}: check the permissions", std::strerror(errno)));
  if (std::filesystem::file_size(path, error) > max_json_bytes && !error)
    refuse_file(path, fmt::format("larger than {} MiB: this is not a deck", max_json_bytes >> 20));
  std::ostringstream text;
  text << in.rdbuf();
  if (in.bad()) refuse_file(path, fmt::format("cannot be read: {}", std::strerror(errno)));
  return std::move(text).str();
}

const char* rule_of(JsonRules rules) {
  switch (rules) {
    case JsonRules::deck: return "comments are allowed, trailing commas are not";
    case JsonRules::deepspeed: return "it is read as Hjson, as DeepSpeed reads it";
    case JsonRules::yaml: return "it is read as YAML, because of its name";
  }
  return "";
}

}  // namespace

Json read_json_file(const std::string& path, JsonRules rules) {
  const std::string text = read_text(path);
  if (text.find_first_not_of(" \t\r\n") == std::string::npos)
    refuse_file(path, "is empty: write a JSON object");
  Json value;
  if (rules == JsonRules::deepspeed)
    if (const auto yaml = nested_yaml(text)) refuse_file(path, *yaml);
  try {
    value = parse_json(text, path, rules);
  } catch (const JsonSyntaxError& error) {
    if (rules != JsonRules::yaml)
      if (const auto foreign = foreign_notation(text))
        refuse_file(path, fmt::format("{} ({})", *foreign, rule_of(rules)));
    refuse_file(path, fmt::format("{}: correct it ({})", error.what(), rule_of(rules)));
  }
  if (!value.is_object())
    refuse_file(path, fmt::format("top level = {}: must be an object: enclose the keys in braces",
                                  brief(value)));
  return value;
}

}  // namespace shardmark
