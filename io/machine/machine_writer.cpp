// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include <io/machine/machine_keys.hpp>

namespace shardmark {
namespace {

using Object = nlohmann::ordered_json;

// Seven digits, which is far beyond what a clock resolves.
double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return 0;
  const double digits = std::pow(10.0, 6 - std::floor(std::log10(std::abs(value))));
  return std::round(value * digits) / digits;
}

double microseconds(double seconds) {
  return rounded(seconds * 1e6);
}

// Writes the keys of machine_keys.hpp. What is unknown (0, empty) or usual is left out; what is
// `stated`, chosen or needed is not.
class MachineWriting {
 public:
  explicit MachineWriting(Object& object) : object_(object) {}

  static bool has(bool is_known) { return is_known; }
  void require(std::string_view, std::string_view) {}
  void missing(std::string_view, std::string_view) {}
  void otherwise(const auto&, const auto&) {}

  void text(std::string_view name, const std::string& field) {
    if (!field.empty()) stated(name, field);
  }
  void stated(std::string_view name, const auto& field) { object_[std::string(name)] = field; }
  void needed(std::string_view name, const std::string& field) { stated(name, field); }
  void flag(std::string_view name, bool field, bool usual = false) {
    if (field != usual) stated(name, field);
  }
  void flag(std::string_view name, const std::optional<bool>& field) {
    if (field) stated(name, *field);
  }
  void real(std::string_view name, double field, RealRange range) { amount(name, field, 1, range); }
  void real(std::string_view name, const std::optional<double>& field, RealRange) {
    if (field) stated(name, rounded(*field));
  }
  void count(std::string_view name, auto field, IntRange, std::int64_t from = 1) {
    if (field >= from) stated(name, field);
  }
  void choice(std::string_view name, auto field) { stated(name, to_string(field)); }
  template<class E>
  void choice(std::string_view name, E field, std::initializer_list<E>) {
    choice(name, field);
  }
  void amount(std::string_view name, double field, double unit, RealRange, double usual = 0) {
    if (usual == 0 ? field > 0 : field != usual) stated(name, rounded(field / unit));
  }
  void by_type(std::string_view name, const EnumArray<Dtype, double>& field, double unit,
               RealRange range) {
    section(name, [&](MachineWriting& inner) {
      for (const Dtype d : all_values<Dtype>) inner.amount(to_string(d), field[d], unit, range);
    });
  }
  void texts(std::string_view name, const std::vector<std::string>& field) {
    if (!field.empty()) stated(name, field);
  }
  void types(std::string_view name, const std::vector<Dtype>& field) {
    Object names = Object::array();
    for (const Dtype type : field) names.push_back(to_string(type));
    put(name, std::move(names));
  }
  void above_0(std::string_view name, const std::vector<double>& field) {
    if (!field.empty()) stated(name, field);
  }
  template<auto... Members, class Point>
  void points(std::string_view name, const std::vector<Point>& field) {
    Object rows = Object::array();
    for (const Point& p : field) {
      rows.push_back({p.*Members...});
      rows.back().back() = microseconds(p.seconds);
    }
    put(name, std::move(rows));
  }
  void curve(std::string_view name, const std::vector<TimePoint>& field,
             const machine_file::CurveForm& form = {}) {
    Object rows = Object::array();
    for (const TimePoint& p : field)
      rows.push_back(
          {form.unit == 1 ? rounded(p.size) : microseconds(p.size), microseconds(p.seconds)});
    if (form.stated)
      stated(name, rows);
    else
      put(name, std::move(rows));
  }
  template<class F>
  void section(std::string_view name, const F& f) {
    put(name, object_of(f));
  }
  template<class T, class F>
  void optional(std::string_view name, const std::optional<T>& field, const F& f) {
    if (field) section(name, [&](MachineWriting& inner) { f(inner, *field); });
  }
  template<class T, class F>
  void list(std::string_view name, const std::vector<T>& field, const F& f) {
    Object items = Object::array();
    for (const T& item : field)
      items.push_back(object_of([&](MachineWriting& inner) { f(inner, item); }));
    put(name, std::move(items));
  }

 private:
  template<class F>
  static Object object_of(const F& f) {
    Object object = Object::object();
    MachineWriting writing(object);
    f(writing);
    return object;
  }
  void put(std::string_view name, Object value) {
    if (!value.empty()) object_[std::string(name)] = std::move(value);
  }

  Object& object_;
};

// Whether a list holds numbers or lists of numbers only, and is written on one line.
bool is_flat(const Object& value) {
  return value.is_array() &&
         std::all_of(value.begin(), value.end(), [](const Object& v) { return v.is_primitive(); });
}

void write(const Object& value, int depth, std::string& text) {
  const std::string indent(static_cast<std::size_t>(depth), ' '), inner = indent + " ";
  if (value.is_primitive() || value.empty() || is_flat(value)) {
    text += value.dump();
    return;
  }
  text += value.is_object() ? "{\n" : "[\n";
  bool first = true;
  for (const auto& [key, item] : value.items()) {
    if (!first) text += ",\n";
    first = false;
    text += inner;
    if (value.is_object()) text += Object(key).dump() + ": ";
    write(item, depth + 1, text);
  }
  text += '\n' + indent + (value.is_object() ? "}" : "]");
}

}  // namespace

Object machine_json(const Machine& m) {
  Object o{{"machine_file", Machine::schema_version}, {"name", m.name}};
  MachineWriting writing(o);
  machine_file::all_keys(writing, m);
  return o;
}

std::string machine_text(const Machine& machine) {
  std::string text;
  write(machine_json(machine), 0, text);
  return text + '\n';
}

}  // namespace shardmark
