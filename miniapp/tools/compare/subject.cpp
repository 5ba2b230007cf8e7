// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include <fmt/core.h>

#include <core/error.hpp>
#include <io/json/json_source.hpp>
#include <miniapp/tools/compare/subject.hpp>

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

double number_at(const Json& json, std::initializer_list<const char*> path) {
  const Json* value = at_path(json, path);
  return value != nullptr && value->is_number() ? value->get<double>() : 0;
}

std::int64_t integer_at(const Json& json, std::initializer_list<const char*> path) {
  const Json* value = at_path(json, path);
  return value != nullptr && value->is_number_integer() ? value->get<std::int64_t>() : 0;
}

// Figures that follow from others, so that files of older programs have them too.
void derive(Subject& s) {
  const auto rate = s.figures.find(figure_name::tokens_per_s);
  if (rate == s.figures.end() || rate->second <= 0) return;
  if (s.parameters > 0) s.figures[figure_name::parameters] = s.parameters;
  if (s.parameters > 0)
    s.figures[figure_name::parameter_tokens_per_s] = rate->second * s.parameters;
  const auto exposed = s.figures.find(figure_name::exposed);
  if (exposed != s.figures.end() && s.tokens > 0)
    s.figures[figure_name::exposed_share] = exposed->second * rate->second / s.tokens;
}

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
  s.nodes = static_cast<int>(hosts.size());
  s.environment["hosts"] = joined(hosts);
  s.environment["processor"] = joined(processors);
  s.environment["cores of ranks"] = joined(cores);
}

// What one step does, from the report of a run.
void read_work(const Json& report, Subject& s) {
  s.world = static_cast<int>(integer_at(report, {"world"}));
  s.parameters = number_at(report, {"parameters"});
  s.layers = integer_at(report, {"fit", "layers"});
  if (s.layers == 0) s.layers = integer_at(report, {"deck", "model", "layers"});
  s.tokens = number_at(report, {"batch", "train_batch_size"}) *
             std::max(1.0, number_at(report, {"deck", "model", "sequence"}));
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
  f.add("checkpoint_read_gib_per_s", {"checkpoints", "benchmark", "read_gib_per_s"});
  f.add(figure_name::step_p50, {"step_seconds", "p50"});
  f.add("step p99, s", {"step_seconds", "p99"});
  for (const char* phase : {"forward", "backward", "optimizer", "copies"})
    f.add(std::string(phase) + ", s", {"seconds_per_step", phase});
  f.add(figure_name::exposed, {"seconds_per_step", "exposed_communication"});
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
  read_work(report, s);
  if (const Json* warnings = at_path(report, {"warnings"}); warnings != nullptr)
    for (const Json& w : *warnings)
      if (w.is_string()) s.warnings.push_back(w.get<std::string>());
  derive(s);
  return s;
}

Subject read_prediction(const Json& file, const Json& point) {
  Subject s;
  s.predicted = true;
  s.environment["machine"] = text_at(file, {"machine"});
  if (const Json* deck = at_path(file, {"deck_as_used"}); deck != nullptr)
    flatten(*deck, "", s.deck);
  s.deck["name"] = text_at(file, {"deck"});
  s.world = static_cast<int>(integer_at(point, {"ranks"}));
  s.parameters = number_at(point, {"parameters"});
  s.layers = integer_at(point, {"layers"});
  const auto per_node = integer_at(point, {"ranks_per_node"});
  if (per_node > 0) s.nodes = static_cast<int>((s.world + per_node - 1) / per_node);
  FigureReader f(point, s);
  f.add(figure_name::tokens_per_s, {"tokens_per_s"});
  f.add(figure_name::step_p50, {"step_s"});
  for (const char* phase : {"forward", "backward", "optimizer", "copies"})
    f.add(std::string(phase) + ", s", {"phases_s", phase});
  f.add(figure_name::exposed, {"exposed_s"});
  f.add("hidden communication, s", {"hidden_s"});
  s.tokens = number_at(point, {"tokens_per_step"});
  if (s.tokens == 0)  // of an older program
    s.tokens = std::round(number_at(point, {"tokens_per_s"}) * number_at(point, {"step_s"}));
  derive(s);
  return s;
}

[[noreturn]] void refuse_file(const std::string& file) {
  throw DeckError(
      fmt::format("{}: neither report.json of a run nor the output of predict --format json: give "
                  "one of these, or the folder of a run",
                  file));
}

// What does not even begin like JSON was never one of both, whatever it is.
Json read_subject_file(const std::string& file) try {
  return read_json_file(file, JsonRules::deck);
} catch (const DeckError&) {
  char first = '{';
  if (std::ifstream in(file); in >> first && first != '{') refuse_file(file);
  throw;
}

}  // namespace

std::vector<Subject> read_subjects(const std::string& path) {
  const std::string file = std::filesystem::is_directory(path)
                               ? (std::filesystem::path(path) / "report.json").string()
                               : path;
  const Json json = read_subject_file(file);
  std::vector<Subject> subjects;
  if (at_path(json, {"seconds_per_step"}) != nullptr) {
    subjects.push_back(read_report(json));
    subjects.back().label = file;
  } else if (const Json* points = at_path(json, {"points"});
             points != nullptr && points->is_array() && at_path(json, {"machine"}) != nullptr) {
    for (const Json& point : *points) {
      subjects.push_back(read_prediction(json, point));
      subjects.back().label = file;
    }
  }
  if (subjects.empty()) refuse_file(file);
  return subjects;
}

}  // namespace shardmark
