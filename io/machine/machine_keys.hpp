// SPDX-License-Identifier: Apache-2.0
// The keys of a machine file in their order, with unit and bounds: the one list by which
// machine_reader.cpp reads a machine and machine_writer.cpp writes it. `Keys` is either of them.
// Only these two include this header. What writing leaves out, because reading would find the same
// without it, is said in machine_writer.cpp.
#pragma once

#include <string>

#include <core/text.hpp>
#include <io/keys/key_reader.hpp>
#include <io/machine/machine_file.hpp>

namespace shardmark::machine_file {

inline constexpr double in_ns = 1e-9, in_us = 1e-6, in_gb = 1e9, in_tera = 1e12;
inline constexpr RealRange any_amount{0, 1e15}, memory_gib{0, 1e6}, disk_gib{0, 1e9};
inline constexpr RealRange bandwidth_gb{0, 1e6, true}, peak_tflops{0, 1e6, true}, part_of_one{0, 1},
    efficiency{0, 1, true}, time_us{0, 1e9}, distance_ns{0, 1e6, true}, factor{1, 1e4};
inline constexpr IntRange any_positive{1, 1 << 24}, any_count{0, 1 << 30};

/// A list of [size, microseconds].
struct CurveForm {
  double unit = 1;        // of a size
  bool ascending = true;  // sizes
  bool stated = false;    // written even if it is empty
};

template<class Keys>
void link_keys(Keys& k, auto& link) {
  k.amount("latency_us", link.latency_s, in_us, time_us);
  k.amount("gb_per_s", link.bytes_per_s, in_gb, bandwidth_gb);
  k.flag("measured", link.measured);
  k.text("source", link.source);
}

template<class Keys>
void copy_keys(Keys& k, const char* name, auto& copies) {
  k.section(name, [&](Keys& c) {
    link_keys(c, copies.link);
    c.curve("bytes_us", copies.points);
  });
}

template<class Keys>
void product_keys(Keys& k, auto& t) {
  k.choice("dtype", t.dtype, {Dtype::fp32, Dtype::bf16, Dtype::fp16});
  k.otherwise(t.result, t.dtype);
  k.choice("result", t.result, {Dtype::fp32, Dtype::bf16, Dtype::fp16});
  k.choice("form", t.form);
  k.stated("accumulate", t.accumulate);
  k.count("busy_ranks", t.busy_ranks, any_positive);
  using P = ProductTimes::Point;
  k.template points<&P::m, &P::n, &P::k, &P::batch, &P::seconds>("m_n_k_batch_us", t.points);
}

template<class Keys>
void stream_keys(Keys& k, auto& t) {
  k.needed("kernel", t.kernel);
  k.choice("dtype", t.dtype);
  k.otherwise(t.source, t.dtype);
  k.choice("source", t.source);
  k.count("busy_ranks", t.busy_ranks, any_positive);
  k.flag("updated", t.updated);
  using P = StreamTimes::Point;
  k.template points<&P::elems, &P::width, &P::seconds>("elems_width_us", t.points);
}

template<class Keys>
void device_keys(Keys& k, auto& d) {
  k.text("name", d.name);
  k.flag("is_host", d.is_host);
  k.amount("memory_gib", d.memory_bytes, gib_bytes, memory_gib);
  k.by_type("peak_tflops", d.peak_flops, in_tera, peak_tflops);
  k.amount("product_efficiency", d.product_efficiency, 1, efficiency);
  k.by_type("product_efficiency_by_dtype", d.product_efficiency_of, 1, efficiency);
  k.amount("memory_gb_per_s", d.memory_bytes_per_s, in_gb, bandwidth_gb);
  k.amount("stream_efficiency", d.stream_efficiency, 1, efficiency);
  k.amount("product_operand_efficiency", d.product_operand_efficiency, 1, efficiency);
  k.count("multiprocessors", d.multiprocessors, any_count);
  k.amount("product_fill_depth", d.product_fill_depth, 1, any_amount);
  k.amount("softmax_depth", d.softmax_depth, 1, any_amount);
  k.amount("fp8_tflops", d.fp8_flops, in_tera, peak_tflops);
  k.amount("portable_attention", d.portable_attention, 1, efficiency, 1);
  k.amount("attention_efficiency", d.attention_efficiency, 1, efficiency);
  k.amount("attention_backward_efficiency", d.attention_backward_efficiency, 1, efficiency);
  k.amount("launch_us", d.launch_s, in_us, time_us);
  k.amount("event_us", d.event_s, in_us, time_us);
  k.list("products", d.products, [](Keys& item, auto& t) { product_keys(item, t); });
  k.list("streams", d.streams, [](Keys& item, auto& t) { stream_keys(item, t); });
}

template<class Keys>
void channel_keys(Keys& k, const std::string& algorithm, auto& channels) {
  const std::string bandwidth = algorithm + "_channel_gb_per_s";
  k.count(algorithm + "_channels", channels.count, any_count);
  if (k.has(channels.count > 0)) k.amount(bandwidth, channels.bytes_per_s, in_gb, bandwidth_gb);
  if ((channels.count == 0) != (channels.bytes_per_s == 0))
    k.missing(bandwidth, "give it together with " + algorithm + "_channels");
}

template<class Keys>
void nccl_keys(Keys& k, auto& t) {
  k.choice("generation", t.generation);
  channel_keys(k, "ring", t.ring);
  channel_keys(k, "tree", t.tree);
  channel_keys(k, "nvls", t.nvls);
  if (t.ring.count == 0)
    k.missing("ring_channels", "NCCL uses rings for most collectives: give their number");
  k.flag("amd_host", t.amd_host);
  k.amount("network_latency_us", t.network_s, in_us, time_us);
  k.flag("over_pci", t.over_pci);
}

template<class Keys>
void collective_keys(Keys& k, auto& t) {
  k.choice("op", t.op,
           {Op::all_gather, Op::reduce_scatter, Op::all_reduce, Op::reduce, Op::broadcast,
            Op::all_to_all, Op::barrier});
  k.choice("dtype", t.dtype);
  k.count("ranks", t.ranks, any_positive);
  k.otherwise(t.ranks_per_node, t.ranks);
  k.count("ranks_per_node", t.ranks_per_node, any_positive);
  k.stated("beside_compute", t.beside_compute);
  k.curve("bytes_us", t.points, {.stated = true});
  k.flag("in_place", t.in_place);
}

template<class Keys>
void level_keys(Keys& k, auto& level) {
  k.text("name", level.name);
  k.stated("between_nodes", level.between_nodes);
  k.text("library", level.library);
  k.text("topology", level.topology);
  k.section("link", [&](Keys& s) { link_keys(s, level.link); });
  k.amount("node_gb_per_s", level.node_bytes_per_s, in_gb, bandwidth_gb);
  k.amount("oversubscription", level.oversubscription, 1, factor);
  k.amount("efficiency", level.efficiency, 1, efficiency);
  k.optional("nccl", level.nccl, [](Keys& s, auto& t) { nccl_keys(s, t); });
  k.amount("compute_share", level.compute_share, 1, part_of_one, -1);
  k.amount("speed_beside_compute", level.speed_beside_compute, 1, efficiency);
  k.list("collectives", level.collectives, [](Keys& item, auto& t) { collective_keys(item, t); });
}

template<class Keys>
void levels_keys(Keys& k, auto& network) {
  k.list("network", network, [](Keys& item, auto& level) { level_keys(item, level); });
}

template<class Keys>
void placement_keys(Keys& k, auto& p) {
  k.require("core_to_core_ns",
            "give the time from one rank's core to its neighbour's, by which runs choose a "
            "placement");
  k.amount("core_to_core_ns", p.core_to_core_s, in_ns, distance_ns);
  k.amount("part", p.part, 1, part_of_one);
  k.list("streams", p.streams, [](Keys& item, auto& t) { stream_keys(item, t); });
  levels_keys(k, p.network);
}

template<class Keys>
void provenance_keys(Keys& k, auto& p) {
  k.text("host", p.host);
  k.text("date", p.date);
  k.text("program", p.program);
  k.text("source", p.source);
  k.texts("commands", p.commands);
  k.texts("versions", p.versions);
  k.count("calibrations", p.calibrations, {1, 1 << 30}, 2);
  k.count("samples", p.samples, {0, std::int64_t{1} << 40});
  k.real("spread", p.spread, any_amount);
  k.flag("busy", p.busy);
  k.real("held_out_error", p.held_out_error, any_amount);
  k.real("crosswise_error_90", p.crosswise_error_90, any_amount);
  k.section("fitted_on", [&](Keys& s) {
    s.count("least_hidden", p.fitted_on.least_hidden, any_positive);
    s.count("most_hidden", p.fitted_on.most_hidden, any_positive);
    s.count("most_ranks", p.fitted_on.most_ranks, any_positive);
    s.types("types", p.fitted_on.types);
  });
  k.text("note", p.note);
  k.list("figures", p.figures, [](Keys& item, auto& f) {
    item.needed("key", f.key);
    item.choice("kind", f.kind);
    item.needed("source", f.source);
  });
}

template<class Keys>
void node_keys(Keys& k, auto& n) {
  k.count("cores", n.cores, any_count);
  k.count("sockets", n.sockets, any_count);
  k.count("numa_domains", n.numa_domains, any_count);
  k.count("ranks", n.ranks, any_count);
  k.count("nodes", n.nodes, any_count);
  k.amount("core_to_core_ns", n.core_to_core_s, in_ns, distance_ns);
  k.flag("shares_memory_bus", n.shares_memory_bus);
  k.amount("memory_gb_per_s", n.memory_bytes_per_s, in_gb, bandwidth_gb);
  k.amount("host_memory_gib", n.host_memory_bytes, gib_bytes, memory_gib);
  k.amount("disk_gib", n.disk_bytes, gib_bytes, disk_gib);
}

template<class Keys>
void noise_keys(Keys& k, auto& n) {
  k.amount("quantum_us", n.quantum_s, in_us, time_us);
  k.count("quanta", n.quanta, {0, std::int64_t{1} << 50});
  k.amount("lost_part", n.lost_part, 1, part_of_one);
  k.amount("detours_per_s", n.detours_per_s, 1, any_amount);
  k.amount("detour_us", n.detour_s, in_us, time_us);
  k.curve("quanta_us", n.delays);
  k.curve("ranks_us", n.slowest);
  k.curve("period_us_us", n.periods, {.unit = in_us, .ascending = false});
  k.list("ranks", n.ranks, [](Keys& item, auto& r) {
    item.count("rank", r.rank, any_count, 0);
    item.stated("host", r.host);
    item.amount("lost_part", r.lost_part, 1, part_of_one);
    item.curve("quanta_us", r.delays);
  });
}

template<class Keys>
void jitter_keys(Keys& k, auto& j) {
  k.real("step_relative_sd", j.step_relative_sd, part_of_one);
  k.real("rank_relative_sd", j.rank_relative_sd, part_of_one);
  k.above_0("step_quantiles", j.step_quantiles);
  if (k.has(j.rank_skew.ranks > 0))
    k.section("rank_skew", [&](Keys& s) {
      s.count("ranks", j.rank_skew.ranks, any_count);
      s.curve("work_us_us", j.rank_skew.points, {.unit = in_us, .stated = true});
    });
  k.optional("noise", j.noise, [](Keys& s, auto& n) { noise_keys(s, n); });
}

template<class Keys>
void software_keys(Keys& k, auto& s) {
  const Software usual;
  k.flag("eager", s.eager);
  k.flag("native_norms", s.native_norms);
  k.flag("composed_loss", s.composed_loss);
  k.flag("synchronizes", s.synchronizes);
  if (k.has(s.attention != usual.attention)) k.choice("attention", s.attention);
  k.flag("overlaps", s.overlaps, true);
  k.flag("fp8_products", s.fp8_products);
  k.amount("eager_traffic", s.eager_traffic, 1, factor, usual.eager_traffic);
  k.amount("eager_launch_us", s.eager_launch_s, in_us, time_us, usual.eager_launch_s);
}

/// The keys below `machine_file` and `name`.
template<class Keys>
void all_keys(Keys& k, auto& m) {
  k.section("provenance", [&](Keys& s) { provenance_keys(s, m.provenance); });
  k.section("node", [&](Keys& s) { node_keys(s, m.node); });
  k.require("device", "describe the device of one rank, at least peak_tflops and memory_gb_per_s");
  k.section("device", [&](Keys& s) { device_keys(s, m.device); });
  levels_keys(k, m.network);
  k.list("placements", m.placements, [](Keys& item, auto& p) { placement_keys(item, p); });
  k.section("host_link", [&](Keys& s) {
    copy_keys(s, "to_device", m.to_device);
    copy_keys(s, "to_host", m.to_host);
  });
  k.section("disk", [&](Keys& s) {
    copy_keys(s, "read", m.disk_read);
    copy_keys(s, "write", m.disk_write);
  });
  k.section("jitter", [&](Keys& s) { jitter_keys(s, m.jitter); });
  k.amount("step_us", m.step_s, in_us, time_us);
  k.section("software", [&](Keys& s) { software_keys(s, m.software); });
}

}  // namespace shardmark::machine_file
