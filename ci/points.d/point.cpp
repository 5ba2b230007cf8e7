// SPDX-License-Identifier: Apache-2.0
#include <fstream>

#include <ci/points.d/point.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <core/error.hpp>
#include <io/keys/key_reader.hpp>
#include <io/machine/machine_file.hpp>

namespace shardmark::points {
namespace {

using Json = nlohmann::json;

template<class T>
T value_or(const Json& object, const char* key, T otherwise) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? otherwise : found->get<T>();
}

// Model FLOPs of a token as the sources count them: 6 per weight, and attention over all keys.
double flops_per_token(const PublishedModel& m, double params) {
  return 6 * params + 12.0 * static_cast<double>(m.layers * m.hidden * m.sequence);
}

// Sources publish a time, a rate of tokens or a rate of FLOPs.
double step_seconds(const Json& row, const Point& p, double params) {
  for (const char* key : {"step_s", "step_s_derived"})
    if (const double s = value_or(row, key, 0.0); s > 0) return s;
  const double tokens = static_cast<double>(p.global_batch * p.model.sequence) / p.gpus;
  for (const char* key : {"tokens_per_s_per_gpu", "tokens_per_s_per_gpu_derived"})
    if (const double rate = value_or(row, key, 0.0); rate > 0) return tokens / rate;
  const double tflops = value_or(row, "tflops_per_gpu", 0.0);
  if (tflops <= 0 || params <= 0) return 0;
  const bool recomputed = value_or<std::string>(row, "flops_counted", "model") == "hardware" &&
                          p.recomputes_blocks();
  const double again = recomputed ? 4.0 / 3 : 1;
  return tokens * flops_per_token(p.model, params) * again / (tflops * 1e12);
}

double guessed_params(const PublishedModel& m) {
  const auto h = static_cast<double>(m.hidden);
  return static_cast<double>(m.layers) * 12 * h * h + static_cast<double>(m.vocab) * h;
}

// The switches of a row's `software`, as a machine file has them.
Software software_of(const Json& row, Origin& origin, const std::string& key) {
  Software software;
  const auto found = row.find("software");
  if (found == row.end()) return software;
  KeyReader reader(origin, *found, key + ".software");
  read_software(reader, software);
  reader.finish();
  return software;
}

Point read_point(const Json& row, Origin& origin, const std::string& key) {
  Point p;
  const Json& m = row.at("model");
  p.source = row.at("source").get<std::string>();
  p.gpu = value_or<std::string>(row, "gpu", "");
  p.network = value_or<std::string>(row, "inter_node", "");
  p.strategy = value_or<std::string>(row, "stage_or_strategy", "");
  p.precision = value_or<std::string>(row, "precision", "bf16");
  p.gather_dtype = value_or<std::string>(row, "gather_dtype", "");
  p.reduce_dtype = value_or<std::string>(row, "reduce_dtype", "");
  p.quality = value_or<std::string>(row, "holdout", "partial");
  if (const auto c = row.find("checkpointing"); c != row.end() && !c->is_null())
    p.recomputation = c->get<std::string>();
  p.gpus = row.at("gpus").get<int>();
  p.gpus_per_node = value_or(row, "gpus_per_node", 8);
  p.micro_batch = value_or<std::int64_t>(row, "micro_batch", 0);
  p.global_batch = value_or<std::int64_t>(row, "global_batch", 0);
  PublishedModel& model = p.model;
  model.family = m.at("family").get<std::string>();
  model.layers = m.at("layers").get<std::int64_t>();
  model.hidden = m.at("hidden").get<std::int64_t>();
  model.heads = m.at("heads").get<std::int64_t>();
  model.kv_heads = value_or(m, "kv_heads", model.heads);
  model.ffn = value_or(m, "ffn", 4 * model.hidden);
  model.vocab = m.at("vocab").get<std::int64_t>();
  model.sequence = m.at("seq").get<std::int64_t>();
  model.tied_head = value_or(m, "tied_head", false);
  p.software = software_of(row, origin, key);
  p.software.fp8_products = p.precision.find("fp8") != std::string::npos;
  const double params = value_or(m, "params", 0.0);
  p.step_s = step_seconds(row, p, params > 0 ? params : guessed_params(model));
  return p;
}

}  // namespace

std::vector<Point> read_points(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw DeckError(fmt::format("{}: cannot be opened: give a file of points", path));
  const Json file = Json::parse(in, nullptr, false, true);
  const Json* rows = file.is_array() ? &file : nullptr;
  if (file.is_object() && file.contains("points")) rows = &file["points"];
  if (rows == nullptr || !rows->is_array())
    throw DeckError(
        fmt::format("{}: points: missing: the file must be JSON with a list of points", path));
  std::vector<Point> points;
  Origin origin(path);
  for (std::size_t i = 0; i < rows->size(); ++i) {
    const std::string key = fmt::format("points[{}]", i);
    try {
      points.push_back(read_point((*rows)[i], origin, key));
    } catch (const Json::exception& e) {
      throw DeckError(fmt::format("{}: {}: {}: give the fields of a point", path, key, e.what()));
    }
  }
  return points;
}

std::string describe(const Point& p) {
  return fmt::format("{} L{} h{} s{} b{}{}", p.model.family, p.model.layers, p.model.hidden,
                     p.model.sequence, p.micro_batch,
                     p.recomputes_blocks() ? " r" : "");
}

}  // namespace shardmark::points
