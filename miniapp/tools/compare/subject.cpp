// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include <fmt/core.h>

#include <core/error.hpp>
#include <core/text.hpp>
#include <io/json/json_source.hpp>
#include <miniapp/tools/compare/subject.hpp>

namespace shardmark {
namespace {

// Null if there is no such value.
const Json* found_at(const Json& json, const std::string& pointer) {
  const Json::json_pointer at(pointer);
  return json.contains(at) ? &json.at(at) : nullptr;
}

std::string text_at(const Json& json, const std::string& pointer) {
  const Json* value = found_at(json, pointer);
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

void add_figure(Subject& s, const std::string& name, const Json& json, const std::string& pointer) {
  const Json* value = found_at(json, pointer);
  if (value != nullptr && value->is_number()) s.figures[name] = value->get<double>();
}

// A figure of runs and of points of a prediction, with its place in their JSON; empty: it has none.
struct PlacedFigure {
  const char *name, *in_report, *in_point;
};
constexpr PlacedFigure placed_figures[] = {
    {figure_name::tokens_per_s, "", "/tokens_per_s"},
    {figure_name::step_p50, "/step_seconds/p50", "/step_s"},
    {"step p99, s", "/step_seconds/p99", ""},
    {"forward, s", "/seconds_per_step/forward", "/phases_s/forward"},
    {"backward, s", "/seconds_per_step/backward", "/phases_s/backward"},
    {"optimizer, s", "/seconds_per_step/optimizer", "/phases_s/optimizer"},
    {"copies, s", "/seconds_per_step/copies", "/phases_s/copies"},
    {figure_name::exposed, "/seconds_per_step/exposed_communication", "/exposed_s"},
    {"hidden communication, s", "/seconds_per_step/hidden_communication", "/hidden_s"},
    {"device peak, bytes", "/memory/device/measured_peak", ""},
    {"host peak, bytes", "/memory/host/measured_peak", ""},
    {"nvme peak, bytes", "/memory/nvme/measured_peak", ""},
    {"resident memory, bytes", "/memory/system/rss_peak", ""},
    {"elements per parameter and step", "/volume_per_parameter", ""},
    {"predicted step, s", "/prediction/step_s", ""},
    {"checkpoint_read_gib_per_s", "/checkpoints/benchmark/read_gib_per_s", ""}};

void add_figures(Subject& s, const Json& json, const char* PlacedFigure::*place) {
  for (const PlacedFigure& figure : placed_figures)
    if (*(figure.*place) != '\0') add_figure(s, figure.name, json, figure.*place);
}

double number_at(const Json& json, const std::string& pointer) {
  const Json* value = found_at(json, pointer);
  return value != nullptr && value->is_number() ? value->get<double>() : 0;
}

std::int64_t integer_at(const Json& json, const std::string& pointer) {
  const Json* value = found_at(json, pointer);
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
  const Json* ranks = found_at(report, "/ranks");
  if (ranks == nullptr || !ranks->is_array()) return;
  std::set<std::string> hosts, processors, cores;
  for (const Json& rank : *ranks) {
    hosts.insert(text_at(rank, "/host"));
    processors.insert(text_at(rank, "/processor"));
    cores.insert(text_at(rank, "/cores"));
  }
  s.nodes = static_cast<int>(hosts.size());
  s.environment["hosts"] = join(hosts, ", ");
  s.environment["processor"] = join(processors, ", ");
  s.environment["cores of ranks"] = join(cores, ", ");
}

// What one step does, from the report of a run.
void read_work(const Json& report, Subject& s) {
  s.world = static_cast<int>(integer_at(report, "/world"));
  s.parameters = number_at(report, "/parameters");
  s.layers = integer_at(report, "/fit/layers");
  if (s.layers == 0) s.layers = integer_at(report, "/deck/model/layers");
  s.tokens = number_at(report, "/batch/train_batch_size") *
             std::max(1.0, number_at(report, "/deck/model/sequence"));
}

Subject read_report(const Json& report) {
  Subject s;
  s.result = text_at(report, "/result");
  s.run_class = text_at(report, "/class");
  s.deck_hash = text_at(report, "/deck_hash");
  s.plan_hash = text_at(report, "/plan_hash");
  s.state_hash = text_at(report, "/state_hash/param");
  const std::string name = text_at(report, "/fom/name");
  if (!name.empty()) add_figure(s, name, report, "/fom/value");
  add_figures(s, report, &PlacedFigure::in_report);
  if (const Json* collectives = found_at(report, "/collectives"); collectives != nullptr)
    for (const auto& [op, figures] : collectives->items()) {
      add_figure(s, op + " calls", figures, "/measured/calls");
      add_figure(s, op + " GB/s", figures, "/bus_gb_per_s");
    }
  if (const Json* deck = found_at(report, "/deck"); deck != nullptr) flatten(*deck, "", s.deck);
  for (const char* section : {"versions", "environment"})
    if (const Json* found = found_at(report, std::string("/") + section); found != nullptr)
      flatten(*found, "", s.environment);
  read_ranks(report, s);
  read_work(report, s);
  if (const Json* warnings = found_at(report, "/warnings"); warnings != nullptr)
    for (const Json& w : *warnings)
      if (w.is_string()) s.warnings.push_back(w.get<std::string>());
  derive(s);
  return s;
}

Subject read_prediction(const Json& file, const Json& point) {
  Subject s;
  s.predicted = true;
  s.environment["machine"] = text_at(file, "/machine");
  if (const Json* deck = found_at(file, "/deck_as_used"); deck != nullptr)
    flatten(*deck, "", s.deck);
  s.deck["name"] = text_at(file, "/deck");
  s.world = static_cast<int>(integer_at(point, "/ranks"));
  s.parameters = number_at(point, "/parameters");
  s.layers = integer_at(point, "/layers");
  const auto per_node = integer_at(point, "/ranks_per_node");
  if (per_node > 0) s.nodes = static_cast<int>((s.world + per_node - 1) / per_node);
  add_figures(s, point, &PlacedFigure::in_point);
  s.tokens = number_at(point, "/tokens_per_step");
  if (s.tokens == 0)  // of an older program
    s.tokens = std::round(number_at(point, "/tokens_per_s") * number_at(point, "/step_s"));
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
  if (found_at(json, "/seconds_per_step") != nullptr) {
    subjects.push_back(read_report(json));
    subjects.back().label = file;
  } else if (const Json* points = found_at(json, "/points");
             points != nullptr && points->is_array() && found_at(json, "/machine") != nullptr) {
    for (const Json& point : *points) {
      subjects.push_back(read_prediction(json, point));
      subjects.back().label = file;
    }
  }
  if (subjects.empty()) refuse_file(file);
  return subjects;
}

}  // namespace shardmark
