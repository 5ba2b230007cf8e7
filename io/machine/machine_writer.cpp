// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include <core/text.hpp>
#include <io/machine/machine_file.hpp>

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

void put(Object& o, const char* name, double value, double unit = 1) {
  if (value > 0) o[name] = rounded(value / unit);
}
void put(Object& o, const char* name, const std::string& value) {
  if (!value.empty()) o[name] = value;
}
void put(Object& o, const char* name, Object section) {
  if (!section.empty()) o[name] = std::move(section);
}

Object by_dtype(const EnumArray<Dtype, double>& values, double unit) {
  Object o = Object::object();
  for (const Dtype d : all_values<Dtype>)
    put(o, std::string(to_string(d)).c_str(), values[d], unit);
  return o;
}

Object curve(const std::vector<TimePoint>& points) {
  Object list = Object::array();
  for (const TimePoint& p : points) list.push_back({rounded(p.size), microseconds(p.seconds)});
  return list;
}

// A curve whose sizes are times as well.
Object times(const std::vector<TimePoint>& points) {
  Object list = Object::array();
  for (const TimePoint& p : points) list.push_back({microseconds(p.size), microseconds(p.seconds)});
  return list;
}

void put_link(Object& o, const LinkModel& link) {
  put(o, "latency_us", link.latency_s, 1e-6);
  put(o, "gb_per_s", link.bytes_per_s, 1e9);
  if (link.measured) o["measured"] = true;
  put(o, "source", link.source);
}

Object copies(const CopyModel& model) {
  Object o = Object::object();
  put_link(o, model.link);
  put(o, "bytes_us", curve(model.points));
  return o;
}

Object provenance(const MachineProvenance& p) {
  Object o = Object::object();
  put(o, "host", p.host);
  put(o, "date", p.date);
  put(o, "program", p.program);
  put(o, "source", p.source);
  if (!p.commands.empty()) o["commands"] = p.commands;
  if (!p.versions.empty()) o["versions"] = p.versions;
  if (p.calibrations > 1) o["calibrations"] = p.calibrations;
  if (p.samples > 0) o["samples"] = p.samples;
  put(o, "spread", p.spread);
  if (p.busy) o["busy"] = *p.busy;
  if (p.held_out_error) o["held_out_error"] = rounded(*p.held_out_error);
  if (p.crosswise_error_90) o["crosswise_error_90"] = rounded(*p.crosswise_error_90);
  Object fitted = Object::object();
  if (p.fitted_on.least_hidden > 0) fitted["least_hidden"] = p.fitted_on.least_hidden;
  if (p.fitted_on.most_hidden > 0) fitted["most_hidden"] = p.fitted_on.most_hidden;
  if (p.fitted_on.most_ranks > 0) fitted["most_ranks"] = p.fitted_on.most_ranks;
  for (const Dtype type : p.fitted_on.types) fitted["types"].push_back(to_string(type));
  put(o, "fitted_on", std::move(fitted));
  put(o, "note", p.note);
  for (const Figure& f : p.figures)
    o["figures"].push_back({{"key", f.key}, {"kind", to_string(f.kind)}, {"source", f.source}});
  return o;
}

Object node(const NodeModel& n) {
  Object o = Object::object();
  for (const auto& [name, value] : {std::pair{"cores", n.cores},
                                    {"sockets", n.sockets},
                                    {"numa_domains", n.numa_domains},
                                    {"ranks", n.ranks},
                                    {"nodes", n.nodes}})
    if (value > 0) o[name] = value;
  put(o, "core_to_core_ns", n.core_to_core_s, 1e-9);
  if (n.shares_memory_bus) o["shares_memory_bus"] = true;
  put(o, "memory_gb_per_s", n.memory_bytes_per_s, 1e9);
  put(o, "host_memory_gib", n.host_memory_bytes, gib_bytes);
  put(o, "disk_gib", n.disk_bytes, gib_bytes);
  return o;
}

Object streams(const std::vector<StreamTimes>& all) {
  Object list = Object::array();
  for (const StreamTimes& t : all) {
    Object item{{"kernel", t.kernel},
                {"dtype", to_string(t.dtype)},
                {"source", to_string(t.source)},
                {"busy_ranks", t.busy_ranks}};
    if (t.updated) item["updated"] = true;
    for (const auto& p : t.points)
      item["elems_width_us"].push_back({p.elems, p.width, microseconds(p.seconds)});
    list.push_back(std::move(item));
  }
  return list;
}

Object device(const DeviceModel& d) {
  Object o = Object::object();
  put(o, "name", d.name);
  if (d.is_host) o["is_host"] = true;
  put(o, "memory_gib", d.memory_bytes, gib_bytes);
  put(o, "peak_tflops", by_dtype(d.peak_flops, 1e12));
  put(o, "product_efficiency", d.product_efficiency);
  put(o, "product_efficiency_by_dtype", by_dtype(d.product_efficiency_of, 1));
  put(o, "memory_gb_per_s", d.memory_bytes_per_s, 1e9);
  put(o, "stream_efficiency", d.stream_efficiency);
  put(o, "product_operand_efficiency", d.product_operand_efficiency);
  if (d.multiprocessors > 0) o["multiprocessors"] = d.multiprocessors;
  put(o, "product_fill_depth", d.product_fill_depth);
  put(o, "softmax_depth", d.softmax_depth);
  put(o, "fp8_tflops", d.fp8_flops, 1e12);
  if (d.portable_attention != 1) put(o, "portable_attention", d.portable_attention);
  put(o, "attention_efficiency", d.attention_efficiency);
  put(o, "attention_backward_efficiency", d.attention_backward_efficiency);
  put(o, "launch_us", d.launch_s, 1e-6);
  put(o, "event_us", d.event_s, 1e-6);
  for (const ProductTimes& t : d.products) {
    Object item{{"dtype", to_string(t.dtype)},
                {"result", to_string(t.result)},
                {"form", to_string(t.form)},
                {"accumulate", t.accumulate},
                {"busy_ranks", t.busy_ranks}};
    for (const auto& p : t.points)
      item["m_n_k_batch_us"].push_back({p.m, p.n, p.k, p.batch, microseconds(p.seconds)});
    o["products"].push_back(std::move(item));
  }
  put(o, "streams", streams(d.streams));
  return o;
}

// What differs from the defaults.
Object software(const Software& s) {
  const Software usual;
  Object o = Object::object();
  if (s.eager) o["eager"] = true;
  if (s.native_norms) o["native_norms"] = true;
  if (s.composed_loss) o["composed_loss"] = true;
  if (s.synchronizes) o["synchronizes"] = true;
  if (s.attention != usual.attention) o["attention"] = to_string(s.attention);
  if (!s.overlaps) o["overlaps"] = false;
  if (s.fp8_products) o["fp8_products"] = true;
  if (s.eager_traffic != usual.eager_traffic) o["eager_traffic"] = rounded(s.eager_traffic);
  if (s.eager_launch_s != usual.eager_launch_s)
    o["eager_launch_us"] = microseconds(s.eager_launch_s);
  return o;
}

Object nccl(const NcclTopology& t) {
  Object o{{"generation", to_string(t.generation)}};
  const auto channels = [&](const std::string& algorithm, const NcclChannels& c) {
    if (c.count == 0) return;
    o[algorithm + "_channels"] = c.count;
    o[algorithm + "_channel_gb_per_s"] = rounded(c.bytes_per_s / 1e9);
  };
  channels("ring", t.ring);
  channels("tree", t.tree);
  channels("nvls", t.nvls);
  if (t.amd_host) o["amd_host"] = true;
  put(o, "network_latency_us", t.network_s, 1e-6);
  if (t.over_pci) o["over_pci"] = true;
  return o;
}

Object level(const NetworkLevel& n) {
  Object o = Object::object();
  put(o, "name", n.name);
  o["between_nodes"] = n.between_nodes;
  put(o, "library", n.library);
  put(o, "topology", n.topology);
  Object link = Object::object();
  put_link(link, n.link);
  put(o, "link", std::move(link));
  put(o, "node_gb_per_s", n.node_bytes_per_s, 1e9);
  put(o, "oversubscription", n.oversubscription);
  put(o, "efficiency", n.efficiency);
  if (n.nccl) o["nccl"] = nccl(*n.nccl);
  o["compute_share"] = rounded(n.compute_share);
  put(o, "speed_beside_compute", n.speed_beside_compute);
  for (const CollectiveTimes& t : n.collectives) {
    Object item{{"op", to_string(t.op)},
                {"dtype", to_string(t.dtype)},
                {"ranks", t.ranks},
                {"ranks_per_node", t.ranks_per_node},
                {"beside_compute", t.beside_compute},
                {"bytes_us", curve(t.points)}};
    if (t.in_place) item["in_place"] = true;
    o["collectives"].push_back(std::move(item));
  }
  return o;
}

Object levels(const std::vector<NetworkLevel>& all) {
  Object list = Object::array();
  for (const NetworkLevel& n : all) list.push_back(level(n));
  return list;
}

Object placement(const Placement& p) {
  Object o = Object::object();
  put(o, "core_to_core_ns", p.core_to_core_s, 1e-9);
  put(o, "part", p.part);
  put(o, "streams", streams(p.streams));
  put(o, "network", levels(p.network));
  return o;
}

Object noise(const NoiseModel& n) {
  Object o = Object::object();
  put(o, "quantum_us", n.quantum_s, 1e-6);
  if (n.quanta > 0) o["quanta"] = n.quanta;
  put(o, "lost_part", n.lost_part);
  put(o, "detours_per_s", n.detours_per_s);
  put(o, "detour_us", n.detour_s, 1e-6);
  put(o, "quanta_us", curve(n.delays));
  put(o, "ranks_us", curve(n.slowest));
  put(o, "period_us_us", times(n.periods));
  for (const NoiseModel::Rank& r : n.ranks) {
    Object rank{{"rank", r.rank}, {"host", r.host}};
    put(rank, "lost_part", r.lost_part);
    put(rank, "quanta_us", curve(r.delays));
    o["ranks"].push_back(std::move(rank));
  }
  return o;
}

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
  put(o, "provenance", provenance(m.provenance));
  put(o, "node", node(m.node));
  o["device"] = device(m.device);
  put(o, "network", levels(m.network));
  for (const Placement& p : m.placements) o["placements"].push_back(placement(p));
  Object link = Object::object(), disk = Object::object(), jitter = Object::object();
  put(link, "to_device", copies(m.to_device));
  put(link, "to_host", copies(m.to_host));
  put(o, "host_link", std::move(link));
  put(disk, "read", copies(m.disk_read));
  put(disk, "write", copies(m.disk_write));
  put(o, "disk", std::move(disk));
  put(jitter, "step_relative_sd", m.jitter.step_relative_sd);
  put(jitter, "rank_relative_sd", m.jitter.rank_relative_sd);
  if (!m.jitter.step_quantiles.empty()) jitter["step_quantiles"] = m.jitter.step_quantiles;
  if (m.jitter.rank_skew.ranks > 0)
    jitter["rank_skew"] = {{"ranks", m.jitter.rank_skew.ranks},
                           {"work_us_us", times(m.jitter.rank_skew.points)}};
  if (m.jitter.noise) put(jitter, "noise", noise(*m.jitter.noise));
  put(o, "jitter", std::move(jitter));
  put(o, "step_us", m.step_s, 1e-6);
  put(o, "software", software(m.software));
  return o;
}

std::string machine_text(const Machine& machine) {
  std::string text;
  write(machine_json(machine), 0, text);
  return text + '\n';
}

}  // namespace shardmark
