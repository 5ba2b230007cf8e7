// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <fmt/core.h>

#include <io/machine/machine_keys.hpp>
#include <io/machine/shipped_machines.hpp>

namespace shardmark {
namespace {

// Reads the keys of machine_keys.hpp. A key that is absent leaves its field as it is.
class MachineReading {
 public:
  explicit MachineReading(KeyReader& reader) : reader_(reader) {}

  static bool has(bool) { return true; }
  void require(std::string_view name, std::string_view remedy) {
    if (reader_.any(name) == nullptr) missing(name, remedy);
  }
  void missing(std::string_view name, std::string_view remedy) {
    reader_.missing(name, std::string(remedy));
  }
  template<class T>
  void otherwise(T& field, const T& value) {
    field = value;
  }

  void text(std::string_view name, std::string& field) { reader_.text(name, field); }
  void stated(std::string_view name, std::string& field) { reader_.text(name, field); }
  void stated(std::string_view name, bool& field) { reader_.boolean(name, field); }
  void needed(std::string_view name, std::string& field) { reader_.need_text(name, field); }
  void flag(std::string_view name, bool& field, bool = false) { reader_.boolean(name, field); }
  void flag(std::string_view name, std::optional<bool>& field) {
    if (reader_.any(name) != nullptr) reader_.boolean(name, field.emplace());
  }
  void real(std::string_view name, auto& field, RealRange range) {
    reader_.real(name, field, range);
  }
  void count(std::string_view name, auto& field, IntRange range, std::int64_t = 1) {
    std::int64_t value = field;
    reader_.integer(name, value, range);
    field = static_cast<std::remove_reference_t<decltype(field)>>(value);
  }
  void choice(std::string_view name, auto& field) { reader_.choice(name, field); }
  template<class E>
  void choice(std::string_view name, E& field, std::initializer_list<E> values) {
    reader_.choice(name, field, values);
  }
  void amount(std::string_view name, double& field, double unit, RealRange range, double = 0) {
    const Json* given = reader_.any(name);
    if (given == nullptr) return;
    refuse_wrong_unit(name, *given, unit, range);
    double value = 0;
    reader_.real(name, value, range);
    field = value * unit;
  }
  void by_type(std::string_view name, EnumArray<Dtype, double>& field, double unit,
               RealRange range) {
    section(name, [&](MachineReading& inner) {
      for (const Dtype d : {Dtype::fp32, Dtype::bf16, Dtype::fp16, Dtype::fp64})
        inner.amount(to_string(d), field[d], unit, range);
    });
  }
  void texts(std::string_view name, std::vector<std::string>& field) {
    for (const Json& text : array_of(name)) {
      if (!text.is_string()) reader_.refuse(name, text, "must be a string");
      field.push_back(text.get<std::string>());
    }
  }
  void types(std::string_view name, std::vector<Dtype>& field) {
    std::vector<std::string> names;
    texts(name, names);
    for (const std::string& type : names)
      for (const Dtype d : {Dtype::fp32, Dtype::bf16, Dtype::fp16})
        if (type == to_string(d)) field.push_back(d);
  }
  void above_0(std::string_view name, std::vector<double>& field) {
    for (const Json& number : array_of(name)) {
      if (!number.is_number() || number.get<double>() <= 0)
        reader_.refuse(name, number, "must be a number above 0");
      field.push_back(number.get<double>());
    }
  }
  // The members of a point stand in its array in this order; the last one is a time.
  template<auto... Members, class Point>
  void points(std::string_view name, std::vector<Point>& field) {
    for (const std::vector<double>& numbers : rows(name, sizeof...(Members))) {
      Point& p = field.emplace_back();
      std::size_t i = 0;
      ((p.*Members = numbers[i++]), ...);
      p.seconds *= us;
    }
  }
  void curve(std::string_view name, std::vector<TimePoint>& field,
             const machine_file::CurveForm& form = {}) {
    double before = 0;
    for (const std::vector<double>& p : rows(name, 2)) {
      if (form.ascending && p[0] <= before)
        reader_.refuse(name, Json(p),
                       fmt::format("sizes must ascend: the point before has {}", before));
      before = p[0];
      field.push_back({p[0] * form.unit, p[1] * us});
    }
  }
  template<class F>
  void section(std::string_view name, const F& f) {
    reader_.section(name, [&](KeyReader& inner) { read(inner, f); });
  }
  template<class T, class F>
  void optional(std::string_view name, std::optional<T>& field, const F& f) {
    section(name, [&](MachineReading& inner) { f(inner, field.emplace()); });
  }
  template<class T, class F>
  void list(std::string_view name, std::vector<T>& field, const F& f) {
    const Json& items = array_of(name);
    for (std::size_t i = 0; i < items.size(); ++i) {
      KeyReader inner(reader_.origin(), items[i], fmt::format("{}[{}]", reader_.key(name), i));
      read(inner, [&](MachineReading& item) { f(item, field.emplace_back()); });
      inner.finish();
    }
  }

 private:
  static constexpr double us = machine_file::in_us;

  template<class F>
  static void read(KeyReader& reader, const F& f) {
    MachineReading reading(reader);
    f(reading);
  }
  // Refuses a number that is too large, but right in the unit without its prefix: bytes instead of
  // gigabytes, or per cent instead of a part.
  void refuse_wrong_unit(std::string_view name, const Json& value, double unit, RealRange range) {
    constexpr double per_cent = 100;
    const double divisor = range.max == 1 ? per_cent : unit;
    if (!value.is_number() || divisor <= 1 || value.get<double>() <= range.max) return;
    const double meant = value.get<double>() / divisor;
    if (meant <= range.max)
      reader_.refuse(name, value,
                     fmt::format("must be {}: did you mean {:.6g}?", describe(range), meant));
  }
  // An absent array is empty.
  const Json& array_of(std::string_view name) {
    static const Json none = Json::array();
    const Json* value = reader_.any(name);
    if (value == nullptr) return none;
    if (!value->is_array()) reader_.refuse(name, *value, "must be an array: write [ … ]");
    return *value;
  }
  // Arrays of `columns` numbers above 0.
  std::vector<std::vector<double>> rows(std::string_view name, std::size_t columns) {
    std::vector<std::vector<double>> found;
    const Json& value = array_of(name);
    for (std::size_t i = 0; i < value.size(); ++i) {
      const Json& point = value[i];
      std::vector<double>& numbers = found.emplace_back();
      if (point.is_array())
        for (const Json& n : point)
          if (n.is_number() && std::isfinite(n.get<double>()) && n.get<double>() > 0)
            numbers.push_back(n.get<double>());
      if (!point.is_array() || numbers.size() != columns || point.size() != columns)
        reader_.refuse(
            fmt::format("{}[{}]", name, i), point,
            fmt::format("must be an array of {} numbers above 0, as the name of the key lists "
                        "them",
                        columns));
    }
    return found;
  }

  KeyReader& reader_;
};

}  // namespace

void read_software(KeyReader& reader, Software& software) {
  MachineReading reading(reader);
  machine_file::software_keys(reading, software);
}

Machine read_machine_file(const std::string& text) {
  const std::string path = find_machine(text).path;
  const Json file = read_json_file(path, JsonRules::deck);
  Origin origin(path);
  KeyReader reader(origin, file, "");
  std::int64_t version = 0;
  if (reader.any("machine_file") == nullptr)
    origin.missing("machine_file",
                   fmt::format("this is not a machine file: give the version of its "
                               "schema, {}; docs/machines.md explains the keys",
                               Machine::schema_version));
  reader.need_integer("machine_file", version, {1, Machine::schema_version});
  Machine m;
  m.software = software_of_name(text);
  reader.need_text("name", m.name);
  if (m.software.eager)
    m.name += m.software.attention == AttentionKernel::unfused
                  ? ", eager software without fused attention"
                  : ", eager software";
  MachineReading reading(reader);
  machine_file::all_keys(reading, m);
  reader.finish();
  if (m.device.products.empty() && m.device.peak_flops[Dtype::fp32] == 0 &&
      m.device.peak_flops[Dtype::bf16] == 0)
    origin.missing("device.peak_tflops",
                   "give the peak by type, for example {\"bf16\": 312}, or "
                   "measured products");
  return m;
}

}  // namespace shardmark
