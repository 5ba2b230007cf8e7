// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <set>

#include <fmt/core.h>

#include <core/error.hpp>
#include <io/json/json_source.hpp>
#include <miniapp/compare/subject.hpp>

namespace shardmark {
namespace {

const Json* at_path(const Json& json, std::initializer_list<const char*> path) {
  const Json* value = &json;
  for (const char* key : path) {
    if (!value->is_object()) return nullptr;
    const auto found = value->find(key);
    if (found == value->end()) return nullptr;
    value = &*found;
  }
  return value;
}

std::string text_at(const Json& json, std::initializer_list<const char*> path) {
  const Json* value = at_path(json, path);
  if (value == nullptr || value->is_null()) return {};
  return value->is_string() ? value->get<std::string>() : value->dump();
}

void flatten(const Json& value, const std::string& key, std::map<std::string, std::string>& into) {
  if (value.is_object() && !value.empty()) {
    for (const auto& [name, item] : value.items())
      flatten(item, key.empty() ? name : key + "." + name, into);
  } else {
    into[key] = value.is_string() ? value.get<std::string>() : value.dump();
  }
}

class FigureReader {
 public:
  FigureReader(const Json& json, Subject& subject) : json_(json), subject_(subject) {}
  void add(const std::string& name, std::initializer_list<const char*> path) {
    const Json* value = at_path(json_, path);
    if (value != nullptr && value->is_number()) subject_.figures[name] = value->get<double>();
  }

 private:
  const Json& json_;
  Subject& subject_;
};

void read_ranks(const Json& report, Subject& s) {
  const Json* ranks = at_path(report, {"ranks"});
  if (ranks == nullptr || !ranks->is_array()) return;
  std::set<std::string> hosts, processors, cores;
  for (const Json& rank : *ranks) {
    hosts.insert(text_at(rank, {"host"}));
    processors.insert(text_at(rank, {"processor"}));
    cores.insert(text_at(rank, {"cores"}));
  }
  const auto joined = [](const std::set<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
    return text;
  };
  s.environment["hosts"] = joined(hosts);
  s.environment["processor"] = joined(processors);
  s.environment["cores of ranks"] = joined(cores);
}

Subject read_report(const Json& report) {
  Subject s;
  s.result = text_at(report, {"result"});
  s.run_class = text_at(report, {"class"});
  s.deck_hash = text_at(report, {"deck_hash"});
  s.plan_hash = text_at(report, {"plan_hash"});
  s.state_hash = text_at(report, {"state_hash", "param"});
  FigureReader f(report, s);
  const std::string name = text_at(report, {"fom", "name"});
  if (!name.empty()) f.add(name, {"fom", "value"});
  f.add("step p50, s", {"step_seconds", "p50"});
  f.add("step p99, s", {"step_seconds", "p99"});
  for (const char* phase : {"forward", "backward", "optimizer", "copies"})
    f.add(std::string(phase) + ", s", {"seconds_per_step", phase});
  f.add("exposed communication, s", {"seconds_per_step", "exposed_communication"});
  f.add("hidden communication, s", {"seconds_per_step", "hidden_communication"});
  for (const char* tier : {"device", "host", "nvme"})
    f.add(std::string(tier) + " peak, bytes", {"memory", tier, "measured_peak"});
  f.add("resident memory, bytes", {"memory", "system", "rss_peak"});
  f.add("elements per parameter and step", {"volume_per_parameter"});
  if (const Json* collectives = at_path(report, {"collectives"}); collectives != nullptr)
    for (const auto& [op, figures] : collectives->items()) {
      FigureReader one(figures, s);
      one.add(op + " calls", {"measured", "calls"});
      one.add(op + " GB/s", {"bus_gb_per_s"});
    }
  f.add("predicted step, s", {"prediction", "step_s"});
  if (const Json* deck = at_path(report, {"deck"}); deck != nullptr) flatten(*deck, "", s.deck);
  for (const char* section : {"versions", "environment"})
    if (const Json* found = at_path(report, {section}); found != nullptr)
      flatten(*found, "", s.environment);
  read_ranks(report, s);
  return s;
}

Subject read_prediction(const Json& file, const Json& point) {
  Subject s;
  s.predicted = true;
  s.environment["machine"] = text_at(file, {"machine"});
  s.deck["name"] = text_at(file, {"deck"});
  FigureReader f(point, s);
  f.add("tokens_per_s", {"tokens_per_s"});
  f.add("step p50, s", {"step_s"});
  for (const char* phase : {"forward", "backward", "optimizer", "copies"})
    f.add(std::string(phase) + ", s", {"phases_s", phase});
  f.add("exposed communication, s", {"exposed_s"});
  f.add("hidden communication, s", {"hidden_s"});
  return s;
}

int integer_at(const Json& json, const char* key) {
  const Json* value = at_path(json, {key});
  return value != nullptr && value->is_number_integer() ? value->get<int>() : 0;
}

}  // namespace

std::vector<Subject> read_subjects(const std::string& path) {
  const std::string file = std::filesystem::is_directory(path)
                               ? (std::filesystem::path(path) / "report.json").string()
                               : path;
  const Json json = read_json_file(file, JsonRules::deck);
  std::vector<Subject> subjects;
  if (at_path(json, {"seconds_per_step"}) != nullptr) {
    subjects.push_back(read_report(json));
    subjects.back().world = integer_at(json, "world");
    subjects.back().label = file;
  } else if (const Json* points = at_path(json, {"points"});
             points != nullptr && points->is_array() && at_path(json, {"machine"}) != nullptr) {
    for (const Json& point : *points) {
      subjects.push_back(read_prediction(json, point));
      subjects.back().world = integer_at(point, "ranks");
      subjects.back().label = file;
    }
  }
  if (subjects.empty())
    throw DeckError(
        fmt::format("{}: neither report.json of a run nor the output of predict --format "
                    "json: give one of these, or the folder of a run",
                    file));
  return subjects;
}

}  // namespace shardmark
