// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/core.h>

#include <core/error.hpp>
#include <io/json/yaml.hpp>

#if SHARDMARK_YAML
#include <yaml-cpp/yaml.h>
#endif

namespace shardmark {

bool reads_yaml() {
  return SHARDMARK_YAML != 0;
}

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
    if (object.contains(key))
      throw DeckError(
          fmt::format("{}: {}: given twice, the second time in line {}: remove one of "
                      "them",
                      name, key, item.first.Mark().line + 1));
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

}  // namespace shardmark
