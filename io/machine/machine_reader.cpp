// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <fmt/core.h>

#include <core/text.hpp>
#include <io/keys/key_reader.hpp>
#include <io/machine/machine_file.hpp>
#include <io/machine/shipped_machines.hpp>

namespace shardmark {
namespace {

constexpr double ns = 1e-9, us = 1e-6, gb = 1e9, tera = 1e12;
constexpr RealRange any_amount{0, 1e15}, memory_gib{0, 1e6}, disk_gib{0, 1e9};
constexpr RealRange bandwidth_gb{0, 1e6, true}, peak_tflops{0, 1e6, true}, part{0, 1},
    efficiency{0, 1, true}, time_us{0, 1e9}, distance_ns{0, 1e6, true}, factor{1, 1e4};
constexpr IntRange count{1, 1 << 24}, any_count{0, 1 << 30};

// Refuses a number that is too large, but right in the unit without its prefix: bytes instead of
// gigabytes, or per cent instead of a part.
void refuse_wrong_unit(KeyReader& reader, std::string_view name, const Json& value, double unit,
                       RealRange range) {
  constexpr double per_cent = 100;
  const double divisor = range.max == 1 ? per_cent : unit;
  if (!value.is_number() || divisor <= 1 || value.get<double>() <= range.max) return;
  const double meant = value.get<double>() / divisor;
  if (meant <= range.max)
    reader.origin().refuse(reader.key(name), value,
                           fmt::format("must be {}: did you mean {:.6g}?", describe(range), meant));
}

void scaled(KeyReader& reader, std::string_view name, double& field, double unit, RealRange range) {
  const Json* given = reader.any(name);
  if (given == nullptr) return;
  refuse_wrong_unit(reader, name, *given, unit, range);
  double value = 0;
  reader.real(name, value, range);
  field = value * unit;
}

void whole_number(KeyReader& reader, std::string_view name, int& field, IntRange range) {
  std::int64_t value = field;
  reader.integer(name, value, range);
  field = static_cast<int>(value);
}

const Json* array_of(KeyReader& parent, std::string_view name) {
  const Json* value = parent.any(name);
  if (value != nullptr && !value->is_array())
    parent.origin().refuse(parent.key(name), *value, "must be an array: write [ … ]");
  return value;
}

// Calls f(reader) for each object of an array.
template<class F>
void each(KeyReader& parent, std::string_view name, const F& f) {
  const Json* value = array_of(parent, name);
  if (value == nullptr) return;
  for (std::size_t i = 0; i < value->size(); ++i) {
    KeyReader reader(parent.origin(), (*value)[i], fmt::format("{}[{}]", parent.key(name), i));
    f(reader);
    reader.finish();
  }
}

// Calls f(numbers) for each point, an array of `columns` numbers of which the last is a time.
template<class F>
void points(KeyReader& parent, std::string_view name, std::size_t columns, const F& f) {
  const Json* value = array_of(parent, name);
  if (value == nullptr) return;
  for (std::size_t i = 0; i < value->size(); ++i) {
    const Json& point = (*value)[i];
    const std::string key = fmt::format("{}[{}]", parent.key(name), i);
    std::vector<double> numbers;
    if (point.is_array())
      for (const Json& n : point)
        if (n.is_number() && std::isfinite(n.get<double>()) && n.get<double>() > 0)
          numbers.push_back(n.get<double>());
    if (!point.is_array() || numbers.size() != columns || point.size() != columns)
      parent.origin().refuse(
          key, point,
          fmt::format("must be an array of {} numbers above 0, as the name of the key "
                      "lists them",
                      columns));
    f(numbers);
  }
}

std::vector<TimePoint> curve(KeyReader& parent, std::string_view name) {
  std::vector<TimePoint> found;
  points(parent, name, 2, [&](const std::vector<double>& p) {
    if (!found.empty() && p[0] <= found.back().size)
      parent.origin().refuse(
          parent.key(name), Json(p),
          fmt::format("sizes must ascend: the point before has {}", found.back().size));
    found.push_back({p[0], p[1] * us});
  });
  return found;
}

std::vector<std::string> texts(KeyReader& parent, std::string_view name) {
  std::vector<std::string> found;
  const Json* value = array_of(parent, name);
  if (value == nullptr) return found;
  for (const Json& text : *value) {
    if (!text.is_string()) parent.origin().refuse(parent.key(name), text, "must be a string");
    found.push_back(text.get<std::string>());
  }
  return found;
}

void read_link(KeyReader& reader, LinkModel& link) {
  scaled(reader, "latency_us", link.latency_s, us, time_us);
  scaled(reader, "gb_per_s", link.bytes_per_s, gb, bandwidth_gb);
  reader.boolean("measured", link.measured);
  reader.text("source", link.source);
}

void read_by_dtype(KeyReader& parent, std::string_view name, EnumArray<Dtype, double>& into,
                   double unit, RealRange range) {
  parent.section(name, [&](KeyReader& reader) {
    for (const Dtype d : {Dtype::fp32, Dtype::bf16, Dtype::fp16, Dtype::fp64})
      scaled(reader, to_string(d), into[d], unit, range);
  });
}

void read_products(KeyReader& parent, std::vector<ProductTimes>& products) {
  each(parent, "products", [&](KeyReader& reader) {
    ProductTimes& t = products.emplace_back();
    reader.choice("dtype", t.dtype, {Dtype::fp32, Dtype::bf16, Dtype::fp16});
    t.result = t.dtype;
    reader.choice("result", t.result, {Dtype::fp32, Dtype::bf16, Dtype::fp16});
    reader.choice("form", t.form);
    reader.boolean("accumulate", t.accumulate);
    whole_number(reader, "busy_ranks", t.busy_ranks, count);
    points(reader, "m_n_k_batch_us", 5, [&](const std::vector<double>& p) {
      t.points.push_back({p[0], p[1], p[2], p[3], p[4] * us});
    });
  });
}

void read_streams(KeyReader& parent, std::vector<StreamTimes>& streams) {
  each(parent, "streams", [&](KeyReader& reader) {
    StreamTimes& t = streams.emplace_back();
    reader.need_text("kernel", t.kernel);
    reader.choice("dtype", t.dtype);
    t.source = t.dtype;
    reader.choice("source", t.source);
    whole_number(reader, "busy_ranks", t.busy_ranks, count);
    reader.boolean("updated", t.updated);
    points(reader, "elems_width_us", 3, [&](const std::vector<double>& p) {
      t.points.push_back({p[0], p[1], p[2] * us});
    });
  });
}

void read_device(KeyReader& reader, DeviceModel& d) {
  reader.text("name", d.name);
  reader.boolean("is_host", d.is_host);
  scaled(reader, "memory_gib", d.memory_bytes, gib_bytes, memory_gib);
  read_by_dtype(reader, "peak_tflops", d.peak_flops, tera, peak_tflops);
  scaled(reader, "product_efficiency", d.product_efficiency, 1, efficiency);
  read_by_dtype(reader, "product_efficiency_by_dtype", d.product_efficiency_of, 1, efficiency);
  scaled(reader, "memory_gb_per_s", d.memory_bytes_per_s, gb, bandwidth_gb);
  scaled(reader, "stream_efficiency", d.stream_efficiency, 1, efficiency);
  scaled(reader, "product_operand_efficiency", d.product_operand_efficiency, 1, efficiency);
  whole_number(reader, "multiprocessors", d.multiprocessors, any_count);
  scaled(reader, "product_fill_depth", d.product_fill_depth, 1, any_amount);
  scaled(reader, "softmax_depth", d.softmax_depth, 1, any_amount);
  scaled(reader, "fp8_tflops", d.fp8_flops, tera, peak_tflops);
  scaled(reader, "portable_attention", d.portable_attention, 1, efficiency);
  scaled(reader, "attention_efficiency", d.attention_efficiency, 1, efficiency);
  scaled(reader, "attention_backward_efficiency", d.attention_backward_efficiency, 1, efficiency);
  scaled(reader, "launch_us", d.launch_s, us, time_us);
  scaled(reader, "event_us", d.event_s, us, time_us);
  read_products(reader, d.products);
  read_streams(reader, d.streams);
}

void read_channels(KeyReader& reader, const std::string& algorithm, NcclChannels& channels) {
  whole_number(reader, algorithm + "_channels", channels.count, any_count);
  scaled(reader, algorithm + "_channel_gb_per_s", channels.bytes_per_s, gb, bandwidth_gb);
  if ((channels.count == 0) != (channels.bytes_per_s == 0))
    reader.origin().missing(reader.key(algorithm + "_channel_gb_per_s"),
                            "give it together with " + algorithm + "_channels");
}

void read_nccl(KeyReader& reader, NcclTopology& t) {
  reader.choice("generation", t.generation);
  read_channels(reader, "ring", t.ring);
  read_channels(reader, "tree", t.tree);
  read_channels(reader, "nvls", t.nvls);
  if (t.ring.count == 0)
    reader.origin().missing(reader.key("ring_channels"),
                            "NCCL uses rings for most collectives: give their number");
  reader.boolean("amd_host", t.amd_host);
  scaled(reader, "network_latency_us", t.network_s, us, time_us);
  reader.boolean("over_pci", t.over_pci);
}

void read_level(KeyReader& reader, NetworkLevel& level) {
  reader.text("name", level.name);
  reader.boolean("between_nodes", level.between_nodes);
  reader.text("library", level.library);
  reader.text("topology", level.topology);
  reader.section("link", [&](KeyReader& link) { read_link(link, level.link); });
  scaled(reader, "node_gb_per_s", level.node_bytes_per_s, gb, bandwidth_gb);
  scaled(reader, "oversubscription", level.oversubscription, 1, factor);
  scaled(reader, "efficiency", level.efficiency, 1, efficiency);
  reader.section("nccl", [&](KeyReader& r) { read_nccl(r, level.nccl.emplace()); });
  scaled(reader, "compute_share", level.compute_share, 1, part);
  scaled(reader, "speed_beside_compute", level.speed_beside_compute, 1, efficiency);
  each(reader, "collectives", [&](KeyReader& item) {
    CollectiveTimes& t = level.collectives.emplace_back();
    item.choice("op", t.op,
                {Op::all_gather, Op::reduce_scatter, Op::all_reduce, Op::reduce, Op::broadcast,
                 Op::all_to_all, Op::barrier});
    item.choice("dtype", t.dtype);
    whole_number(item, "ranks", t.ranks, count);
    t.ranks_per_node = t.ranks;
    whole_number(item, "ranks_per_node", t.ranks_per_node, count);
    item.boolean("beside_compute", t.beside_compute);
    item.boolean("in_place", t.in_place);
    t.points = curve(item, "bytes_us");
  });
}

void read_copies(KeyReader& parent, std::string_view name, CopyModel& model) {
  parent.section(name, [&](KeyReader& reader) {
    read_link(reader, model.link);
    model.points = curve(reader, "bytes_us");
  });
}

void read_fitted_on(KeyReader& reader, FittedOn& f) {
  reader.integer("least_hidden", f.least_hidden, {1, 1 << 24});
  reader.integer("most_hidden", f.most_hidden, {1, 1 << 24});
  whole_number(reader, "most_ranks", f.most_ranks, count);
  for (const std::string& type : texts(reader, "types"))
    for (const Dtype d : {Dtype::fp32, Dtype::bf16, Dtype::fp16})
      if (type == to_string(d)) f.types.push_back(d);
}

void read_provenance(KeyReader& reader, MachineProvenance& p) {
  reader.text("host", p.host);
  reader.text("date", p.date);
  reader.text("program", p.program);
  reader.text("source", p.source);
  p.commands = texts(reader, "commands");
  p.versions = texts(reader, "versions");
  reader.integer("calibrations", p.calibrations, {1, 1 << 30});
  reader.integer("samples", p.samples, {0, std::int64_t{1} << 40});
  reader.real("spread", p.spread, any_amount);
  if (reader.any("busy") != nullptr) {
    bool busy = false;
    reader.boolean("busy", busy);
    p.busy = busy;
  }
  reader.real("held_out_error", p.held_out_error, any_amount);
  reader.real("crosswise_error_90", p.crosswise_error_90, any_amount);
  reader.section("fitted_on", [&](KeyReader& fitted) { read_fitted_on(fitted, p.fitted_on); });
  reader.text("note", p.note);
  each(reader, "figures", [&](KeyReader& item) {
    Figure& f = p.figures.emplace_back();
    item.need_text("key", f.key);
    item.choice("kind", f.kind);
    item.need_text("source", f.source);
  });
}

void read_node(KeyReader& reader, NodeModel& n) {
  whole_number(reader, "cores", n.cores, any_count);
  whole_number(reader, "sockets", n.sockets, any_count);
  whole_number(reader, "numa_domains", n.numa_domains, any_count);
  whole_number(reader, "ranks", n.ranks, any_count);
  whole_number(reader, "nodes", n.nodes, any_count);
  scaled(reader, "core_to_core_ns", n.core_to_core_s, ns, distance_ns);
  reader.boolean("shares_memory_bus", n.shares_memory_bus);
  scaled(reader, "memory_gb_per_s", n.memory_bytes_per_s, gb, bandwidth_gb);
  scaled(reader, "host_memory_gib", n.host_memory_bytes, gib_bytes, memory_gib);
  scaled(reader, "disk_gib", n.disk_bytes, gib_bytes, disk_gib);
}

void read_noise(KeyReader& reader, NoiseModel& n) {
  scaled(reader, "quantum_us", n.quantum_s, us, time_us);
  reader.integer("quanta", n.quanta, {0, std::int64_t{1} << 50});
  scaled(reader, "lost_part", n.lost_part, 1, part);
  scaled(reader, "detours_per_s", n.detours_per_s, 1, any_amount);
  scaled(reader, "detour_us", n.detour_s, us, time_us);
  n.delays = curve(reader, "quanta_us");
  n.slowest = curve(reader, "ranks_us");
  points(reader, "period_us_us", 2, [&](const std::vector<double>& p) {
    n.periods.push_back({p[0] * us, p[1] * us});
  });
  each(reader, "ranks", [&](KeyReader& item) {
    NoiseModel::Rank& r = n.ranks.emplace_back();
    whole_number(item, "rank", r.rank, {0, 1 << 30});
    item.text("host", r.host);
    scaled(item, "lost_part", r.lost_part, 1, part);
    r.delays = curve(item, "quanta_us");
  });
}

void read_jitter(KeyReader& reader, Jitter& j) {
  reader.real("step_relative_sd", j.step_relative_sd, part);
  reader.real("rank_relative_sd", j.rank_relative_sd, part);
  if (const Json* value = array_of(reader, "step_quantiles"))
    for (const Json& q : *value) {
      if (!q.is_number() || q.get<double>() <= 0)
        reader.origin().refuse(reader.key("step_quantiles"), q, "must be a number above 0");
      j.step_quantiles.push_back(q.get<double>());
    }
  reader.section("rank_skew", [&](KeyReader& r) {
    whole_number(r, "ranks", j.rank_skew.ranks, any_count);
    j.rank_skew.points = curve(r, "work_us_us");
    for (TimePoint& p : j.rank_skew.points) p.size *= us;
  });
  reader.section("noise", [&](KeyReader& r) { read_noise(r, j.noise.emplace()); });
}

void read_placement(KeyReader& reader, Placement& p) {
  const std::string key = "core_to_core_ns";
  if (reader.any(key) == nullptr)
    reader.origin().missing(reader.key(key),
                            "give the time from one rank's core to its neighbour's, by which runs "
                            "choose a placement");
  scaled(reader, key, p.core_to_core_s, ns, distance_ns);
  scaled(reader, "part", p.part, 1, part);
  read_streams(reader, p.streams);
  each(reader, "network", [&](KeyReader& r) { read_level(r, p.network.emplace_back()); });
}

}  // namespace

void read_software(KeyReader& reader, Software& software) {
  reader.boolean("eager", software.eager);
  reader.boolean("native_norms", software.native_norms);
  reader.boolean("composed_loss", software.composed_loss);
  reader.boolean("synchronizes", software.synchronizes);
  reader.choice("attention", software.attention);
  reader.boolean("overlaps", software.overlaps);
  reader.boolean("fp8_products", software.fp8_products);
  scaled(reader, "eager_traffic", software.eager_traffic, 1, factor);
  scaled(reader, "eager_launch_us", software.eager_launch_s, us, time_us);
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
  reader.section("provenance", [&](KeyReader& r) { read_provenance(r, m.provenance); });
  reader.section("node", [&](KeyReader& r) { read_node(r, m.node); });
  if (reader.any("device") == nullptr)
    origin.missing("device",
                   "describe the device of one rank, at least peak_tflops and "
                   "memory_gb_per_s");
  reader.section("device", [&](KeyReader& r) { read_device(r, m.device); });
  each(reader, "network", [&](KeyReader& r) { read_level(r, m.network.emplace_back()); });
  each(reader, "placements", [&](KeyReader& r) { read_placement(r, m.placements.emplace_back()); });
  reader.section("host_link", [&](KeyReader& r) {
    read_copies(r, "to_device", m.to_device);
    read_copies(r, "to_host", m.to_host);
  });
  reader.section("disk", [&](KeyReader& r) {
    read_copies(r, "read", m.disk_read);
    read_copies(r, "write", m.disk_write);
  });
  reader.section("jitter", [&](KeyReader& r) { read_jitter(r, m.jitter); });
  scaled(reader, "step_us", m.step_s, us, time_us);
  reader.section("software", [&](KeyReader& r) { read_software(r, m.software); });
  reader.finish();
  if (m.device.products.empty() && m.device.peak_flops[Dtype::fp32] == 0 &&
      m.device.peak_flops[Dtype::bf16] == 0)
    origin.missing("device.peak_tflops",
                   "give the peak by type, for example {\"bf16\": 312}, or "
                   "measured products");
  return m;
}

}  // namespace shardmark
