// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include <fmt/core.h>

#include <core/error.hpp>
#include <io/json/yaml.hpp>

#if SHARDMARK_YAML
#include <yaml-cpp/yaml.h>
#endif

namespace shardmark {

#if SHARDMARK_YAML
namespace {

constexpr int max_yaml_depth = 64;
constexpr std::size_t max_yaml_values = 100'000;  // an alias may repeat what it names many times

bool is_one_of(const std::string& text, std::initializer_list<const char*> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

// Whether PyYAML reads a scalar as a number: an exponent needs a point before it and a sign.
bool is_decimal(const std::string& text) {
  std::size_t at = text[0] == '-' || text[0] == '+' ? 1 : 0;
  const auto digits = [&] {
    const std::size_t from = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
    return at - from;
  };
  const std::size_t first = at, whole = digits();
  if (at == text.size()) return whole == 1 || (whole > 1 && text[first] != '0');
  if (text[at++] != '.' || (digits() == 0 && whole == 0)) return false;
  if (at == text.size()) return true;
  if (text[at] != 'e' && text[at] != 'E') return false;
  if (++at == text.size() || (text[at] != '-' && text[at] != '+')) return false;
  ++at;
  return digits() > 0 && at == text.size();
}

Json scalar(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") return text;  // quoted
  if (is_one_of(text, {"", "~", "null", "Null", "NULL"})) return nullptr;
  if (is_one_of(text, {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"})) return true;
  if (is_one_of(text, {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"}))
    return false;
  if (!is_decimal(text)) return text;
  std::string plain = text[0] == '+' ? text.substr(1) : text;
  if (plain.back() == '.') plain += '0';
  if (const std::size_t point = plain.find('.'); point == 0 || plain[point - (point > 0)] == '-')
    plain.insert(point, "0");
  if (const std::size_t point = plain.find('.');
      point + 1 < plain.size() && (plain[point + 1] == 'e' || plain[point + 1] == 'E'))
    plain.insert(point + 1, "0");
  const Json number = Json::parse(plain, nullptr, false);
  return number.is_number() ? number : Json(text);
}

Json converted(const YAML::Node& node, const std::string& name, int depth, std::size_t& values) {
  if (depth > max_yaml_depth || ++values > max_yaml_values)
    throw DeckError(
        fmt::format("{}: line {}: nested too deep or too long for a config: make it "
                    "smaller",
                    name, node.Mark().line + 1));
  switch (node.Type()) {
    case YAML::NodeType::Undefined:
    case YAML::NodeType::Null: return nullptr;
    case YAML::NodeType::Scalar: return scalar(node);
    case YAML::NodeType::Sequence: {
      Json list = Json::array();
      for (const auto& item : node) list.push_back(converted(item, name, depth + 1, values));
      return list;
    }
    case YAML::NodeType::Map: break;
  }
  Json object = Json::object();
  for (const auto& item : node) {
    if (!item.first.IsScalar())
      throw DeckError(fmt::format("{}: line {}: a key must be a word: correct it", name,
                                  item.first.Mark().line + 1));
    const std::string& key = item.first.Scalar();
    if (object.contains(key)) refuse_second(name, key, item.first.Mark().line + 1);
    object[key] = converted(item.second, name, depth + 1, values);
  }
  return object;
}

}  // namespace

Json parse_yaml(const std::string& text, const std::string& name) {
  YAML::Node root;
  try {
    root = YAML::Load(text);
  } catch (const YAML::Exception& error) {
    throw JsonSyntaxError(fmt::format("line {}, column {}: not YAML: {}", error.mark.line + 1,
                                      error.mark.column + 1, error.msg));
  }
  std::size_t values = 0;
  return converted(root, name, 0, values);
}
#else
Json parse_yaml(const std::string&, const std::string& name) {
  throw DeckError(
      fmt::format("{}: this build does not read YAML: install libyaml-cpp-dev "
                  "(ci/setup does) and build again, or write the same keys as JSON",
                  name));
}
#endif

namespace {

bool in_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

struct Literal {
  std::string_view written, notation, json;
  bool as_value = false;  // only after a colon, as it may be a key
};
constexpr std::array literals{
    Literal{"True", "Python", "true"},
    Literal{"False", "Python", "false"},
    Literal{"None", "Python", "null"},
    Literal{"yes", "YAML", "true", true},
    Literal{"no", "YAML", "false", true},
    Literal{"on", "YAML", "true", true},
    Literal{"off", "YAML", "false", true},
    Literal{"NaN", "Python", "a number", true},
    Literal{"nan", "Python", "a number", true},
    Literal{"inf", "Python", "a number", true},
    Literal{"Infinity", "Python", "a number", true},
};

// Walks over a text, past strings in double quotes and comments.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  std::optional<std::string> python() {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '"')
        skip_string();
      else if (c == '#' || text_.substr(at_, 2) == "//")
        at_ = std::min(text_.find('\n', at_), text_.size()) - 1;
      else if (text_.substr(at_, 2) == "/*")
        at_ = std::min(text_.find("*/", at_), text_.size() - 2) + 1;
      else if (auto what = sign(c))
        return at_place(text_, at_, *what);
    }
    return std::nullopt;
  }

 private:
  std::optional<std::string> sign(char c) const {
    if (c == '\'') return "this is Python: write strings in double quotes";
    if (c == '(') return "this is Python: write a list in brackets, [ and ]";
    if (c == '=' && starts_with_name())
      return "this is Python: keep only the braces and what is between them";
    if (c == ',' && closes_next()) return "not JSON: a comma before a closing bracket: remove it";
    if (c == '_' && is_in_number()) return "this is Python: write the number without _";
    if ((c == '*' || c == '/') && is_in_number())
      return "this is Python: write the number that is calculated";
    if (at_ > 0 && in_word(text_[at_ - 1])) return std::nullopt;
    for (const Literal& l : literals)
      if (text_.substr(at_).starts_with(l.written) && !in_word(peek(l.written.size())) &&
          (!l.as_value || follows_colon()))
        return fmt::format("this is {}: write {} in place of {}", l.notation, l.json, l.written);
    return std::nullopt;
  }

  // Whether a digit stands before this position, in a word that begins with one.
  bool is_in_number() const {
    std::size_t end = at_;
    while (end > 0 && text_[end - 1] == ' ') --end;
    std::size_t begin = end;
    while (begin > 0 && (in_word(text_[begin - 1]) || text_[begin - 1] == '.')) --begin;
    return begin < end && std::isdigit(static_cast<unsigned char>(text_[begin])) != 0;
  }
  bool follows_colon() const {
    const std::size_t before = text_.substr(0, at_).find_last_not_of(" \t\r\n-");
    return before != std::string_view::npos && text_[before] == ':';
  }

  char peek(std::size_t ahead) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool closes_next() const {
    const std::size_t next = text_.find_first_not_of(" \t\r\n", at_ + 1);
    return next != std::string_view::npos && (text_[next] == '}' || text_[next] == ']');
  }
  // Whether only a name stands before this position: `config = {`.
  bool starts_with_name() const {
    const std::string_view before = text_.substr(0, at_);
    return before.find_first_of("{}[]:,\"") == std::string_view::npos &&
           std::any_of(before.begin(), before.end(), in_word);
  }
  void skip_string() {
    for (++at_; at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n'; ++at_)
      if (text_[at_] == '\\') ++at_;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

// One line of a text, without its comment.
struct Line {
  std::size_t position, indent;
  std::string_view content;
};

std::vector<Line> lines_of(std::string_view text) {
  std::vector<Line> lines;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    std::string_view line = text.substr(from, end - from);
    line = line.substr(0, line.find('#'));
    const std::size_t first = line.find_first_not_of(" \t\r");
    if (first != std::string_view::npos) {
      const std::size_t last = line.find_last_not_of(" \t\r");
      lines.push_back({from + first, first, line.substr(first, last - first + 1)});
    }
    from = end + 1;
  }
  return lines;
}

bool is_yaml_key(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  return std::all_of(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(colon),
                     [](char c) { return in_word(c) || c == '-' || c == '.'; }) &&
         (colon + 1 == line.size() || line[colon + 1] == ' ');
}

// A line with which YAML begins: a document, an element of a list, or a key.
bool is_yaml_line(std::string_view line) {
  return line.starts_with("---") || line.starts_with("- ") || is_yaml_key(line);
}

constexpr std::string_view yaml_remedy =
    "this is YAML: write JSON, with braces and quoted keys; Accelerate's config may be YAML if the "
    "name of its file ends in .yaml";

bool has_braces(const std::vector<Line>& lines) {
  return lines.empty() || lines[0].content[0] == '{' || lines[0].content[0] == '[';
}

}  // namespace

std::optional<std::string> foreign_notation(std::string_view text) {
  const std::vector<Line> lines = lines_of(text);
  if (!has_braces(lines) && is_yaml_line(lines[0].content))
    return at_place(text, lines[0].position, yaml_remedy);
  return Scanner(text).python();
}

std::optional<std::string> nested_yaml(std::string_view text) {
  const std::vector<Line> lines = lines_of(text);
  if (has_braces(lines)) return std::nullopt;
  for (std::size_t i = 0; i + 1 < lines.size(); ++i)
    if (is_yaml_key(lines[i].content) && lines[i].content.back() == ':' &&
        (lines[i + 1].content.starts_with("- ") ||
         (lines[i + 1].indent > lines[i].indent && is_yaml_key(lines[i + 1].content))))
      return at_place(text, lines[i].position, yaml_remedy);
  return std::nullopt;
}

}  // namespace shardmark
