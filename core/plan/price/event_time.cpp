// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <string>

#include <core/plan/price/event_time.hpp>
#include <core/plan/price/gpu_kernels.hpp>
#include <core/plan/price/product_rates.hpp>

namespace shardmark {
namespace {

ProductForm form_of(const Product& p) {
  return p.transpose_a ? ProductForm::tn : p.transpose_b ? ProductForm::nt : ProductForm::nn;
}

// 0: the product is priced by itself.
double fused_efficiency(const DeviceModel& d, ProductPart part) {
  if (part == ProductPart::linear) return 0;
  return attention_efficiency_of(d, part == ProductPart::attention_backward);
}

// FLOP/s of the kernel that computes all of attention; 0: the product is priced by itself.
double fused_rate(const DeviceModel& d, const Product& p) {
  return peak_of(d, p.type) * fused_efficiency(d, p.part);
}

// How badly measurements with `have` busy ranks stand for `want`.
int busy_distance(int have, int want) {
  return std::abs(have - want) * 2 + (have < want ? 1 : 0);
}

}  // namespace

// Points as tables to interpolate in, of the number of busy ranks that comes closest.
struct EventTimes::Tables {
  using ProductKey = std::tuple<Dtype, Dtype, ProductForm, bool>;
  using StreamKey = std::tuple<std::string, Dtype, Dtype, bool>;
  std::map<ProductKey, Scatter> products;
  std::map<StreamKey, Scatter> streams;
  std::map<std::tuple<Dtype, Dtype, int, bool, std::int64_t, std::int64_t, std::int64_t,
                      std::int64_t, ProductPart, bool>,
           double>
      product_s;  // of one product
  std::map<std::tuple<std::string_view, Dtype, Dtype, bool, double, double>, Cost>
      stream_s;  // one launch

  Tables(const Machine& machine, int busy_ranks) {
    std::map<ProductKey, int> product_busy;
    std::map<StreamKey, int> stream_busy;
    const auto nearest = [&](auto& busy, const auto& key, int have) {
      const auto [it, fresh] = busy.emplace(key, have);
      if (!fresh && busy_distance(have, busy_ranks) < busy_distance(it->second, busy_ranks))
        it->second = have;
    };
    const auto key_of_product = [](const ProductTimes& t) {
      return ProductKey{t.dtype, t.result, t.form, t.accumulate};
    };
    const auto key_of_stream = [](const StreamTimes& t) {
      return StreamKey{t.kernel, t.dtype, t.source, t.updated};
    };
    for (const auto& t : machine.device.products)
      nearest(product_busy, key_of_product(t), t.busy_ranks);
    for (const auto& t : machine.device.streams)
      nearest(stream_busy, key_of_stream(t), t.busy_ranks);
    for (const ProductTimes& t : machine.device.products)
      if (product_busy[key_of_product(t)] == t.busy_ranks)
        for (const auto& p : t.points)
          products[key_of_product(t)].add({p.m, p.n, p.k, p.batch},
                                          turns_on_cores(machine, busy_ranks, t.busy_ranks) *
                                              p.seconds / (2 * p.m * p.n * p.k * p.batch));
    for (const StreamTimes& t : machine.device.streams)
      if (stream_busy[key_of_stream(t)] == t.busy_ranks)
        for (const auto& p : t.points)
          streams[key_of_stream(t)].add(
              {p.elems, p.width, 1, 1},
              turns_on_cores(machine, busy_ranks, t.busy_ranks) * p.seconds / p.elems);
  }

  // The table of this kind of product, or that of the most similar kind; null: there is none.
  const Scatter* find(const Product& p) const {
    const ProductKey wanted{p.type, p.c_type, form_of(p), p.accumulate};
    const Scatter* best = nullptr;
    int best_distance = 0;
    for (const auto& [key, table] : products) {
      if (std::get<0>(key) != std::get<0>(wanted)) continue;
      const int distance = (std::get<2>(key) != std::get<2>(wanted) ? 4 : 0) +
                           (std::get<1>(key) != std::get<1>(wanted) ? 2 : 0) +
                           (std::get<3>(key) != std::get<3>(wanted) ? 1 : 0);
      if (best == nullptr || distance < best_distance) best = &table, best_distance = distance;
    }
    return best;
  }
  const Scatter* find(const Stream& s) const {
    for (const bool updated : {s.updated, false}) {
      const auto exact = streams.find({std::string(s.kernel), s.dtype, s.source, updated});
      if (exact != streams.end()) return &exact->second;
    }
    for (const auto& [key, table] : streams)
      if (std::get<0>(key) == s.kernel && std::get<1>(key) == s.dtype) return &table;
    return nullptr;
  }
};

EventTimes::EventTimes(const Machine& machine, int busy_ranks, const Speeds& speeds)
    : machine_(machine),
      busy_ranks_(busy_ranks),
      speeds_(speeds),
      tables_(std::make_unique<Tables>(machine, busy_ranks)) {}
EventTimes::~EventTimes() = default;
EventTimes::EventTimes(EventTimes&&) noexcept = default;

void EventTimes::note(const std::string& what, double beyond) {
  constexpr double worth_saying = 1.5;
  if (beyond < worth_saying) return;
  double& most = extrapolations_[what];
  most = std::max(most, beyond);
}

// Returns the seconds of one of the `count` products, from what the device is.
double EventTimes::unmeasured_product(const Product& p) const {
  const DeviceModel& d = machine_.device;
  if (has_tiles(d)) {
    const double rate = d.memory_bytes_per_s * d.stream_efficiency;
    const double added = rate > 0 ? adding_bytes(machine_.software, p) / rate : 0;
    const double kernels = launches_of(machine_.software, p) / as_double(p.count);
    return software_product_s(machine_, p) + added + kernels * d.launch_s;
  }
  const double given = d.product_efficiency_of[p.type];
  const double peak = peak_of(d, p.type);
  double seconds = 0;
  if (peak > 0)
    seconds = p.flops() / as_double(p.count) / (peak * (given > 0 ? given : d.product_efficiency));
  const double rate = d.memory_bytes_per_s * d.product_operand_efficiency;
  if (rate > 0) seconds += operand_bytes(p) / rate;
  return seconds * turns_on_cores(machine_, busy_ranks_, 1);
}

Cost EventTimes::product(const Product& p) {
  // Attention has many tiles, whose price by a rate is sooner computed than looked up.
  const double fused = fused_rate(machine_.device, p);
  if (fused > 0)
    return cost_of_products(p.flops() / as_double(p.count) / fused * as_double(p.count));
  const auto key = std::make_tuple(p.type, p.c_type, static_cast<int>(form_of(p)), p.accumulate,
                                   p.m, p.n, p.k, p.batch, p.part, p.in_head);
  auto it = tables_->product_s.find(key);
  if (it == tables_->product_s.end()) {
    const DeviceModel& d = machine_.device;
    const double flops = p.flops() / as_double(p.count);
    double seconds = 0;
    if (const Scatter* table = tables_->find(p)) {
      const Estimate e =
          table->at({as_double(p.m), as_double(p.n), as_double(p.k), as_double(p.batch)});
      seconds = e.value * flops;
      note("shapes of " + std::string(to_string(p.type)) + " products", e.beyond);
    } else {
      seconds = unmeasured_product(p);
      if (!d.products.empty())
        note("products of " + std::string(to_string(p.type)) + ", which were not measured", 2);
    }
    if (fused_efficiency(d, p.part) == 0) seconds = std::max(seconds, d.launch_s);
    it = tables_->product_s.emplace(key, seconds).first;
  }
  return cost_of_products(it->second * as_double(p.count));
}

Cost EventTimes::cost_of_products(double seconds) const {
  Cost cost;
  cost[Resource::products] = seconds / speeds_[Resource::products];
  return cost;
}

Cost EventTimes::stream(const Stream& s) {
  if (machine_.device.attention_efficiency > 0 && s.in_attention) return {};
  const auto key = std::make_tuple(s.kernel, s.dtype, s.source, s.updated, s.elems, s.width);
  auto it = tables_->stream_s.find(key);
  if (it == tables_->stream_s.end()) {
    const DeviceModel& d = machine_.device;
    double seconds = 0;
    if (const Scatter* table = tables_->find(s)) {
      const Estimate e = table->at({s.elems, s.width, 1, 1});
      seconds = e.value * s.elems;
    } else {
      double rate = d.memory_bytes_per_s * d.stream_efficiency;
      if (machine_.node.shares_memory_bus && machine_.node.memory_bytes_per_s > 0)
        rate = std::min(rate, machine_.node.memory_bytes_per_s * d.stream_efficiency / busy_ranks_);
      const double bytes = s.bytes * (has_tiles(d) ? traffic_of(machine_.software, s) : 1);
      if (rate > 0) seconds = turns_on_cores(machine_, busy_ranks_, 1) * bytes / rate;
    }
    Cost one;
    const bool modelled = has_tiles(d) && tables_->find(s) == nullptr;
    one[Resource::host] =
        d.launch_s * (modelled ? launches_of(machine_.software, s) / s.launches : 1);
    one[Resource::memory] = modelled ? seconds : std::max(0.0, seconds - d.launch_s);
    it = tables_->stream_s.emplace(key, one).first;
  }
  Cost cost;
  for (const Resource r : {Resource::host, Resource::memory})
    cost[r] = it->second[r] * s.launches / speeds_[r];
  return cost;
}

Cost EventTimes::host_stream(const Stream& s) const {
  const double given = machine_.node.memory_bytes_per_s;
  const double rate = (given > 0 ? given : assumed_host_bytes_per_s) * host_update_efficiency;
  Cost cost;
  cost[Resource::host_memory] =
      s.bytes * s.launches * busy_ranks_ / rate / speeds_[Resource::host_memory];
  return cost;
}

// Whether attention is one kernel, or those of a framework, and not the tiles of the work list.
bool EventTimes::attention_as_a_whole(const Work& work) const {
  return has_tiles(machine_.device) && work.attention.heads > 0 &&
         machine_.device.attention_efficiency > 0;
}

double EventTimes::launching(const Work& work) const {
  const Software& software = machine_.software;
  if (!software.eager || !has_tiles(machine_.device)) return 0;
  double launches = attention_launches(software, work.attention);
  for (const Product& p : work.products)
    if (p.part == ProductPart::linear) launches += launches_of(software, p);
  for (const Stream& s : work.streams)
    if (!s.in_attention) launches += launches_of(software, s);
  return launches * software.eager_launch_s / speeds_[Resource::host];
}

Cost EventTimes::compute(const Work& work, Tier tier) {
  const bool beside_device = tier == Tier::host && !machine_.device.is_host;
  Cost cost;
  const auto add = [&](const Cost& part) {
    for (std::size_t r = 0; r < cost.size(); ++r) cost[r] += part[r];
  };
  const bool whole = attention_as_a_whole(work);
  if (whole) add(cost_of_products(attention_s(machine_, work.attention)));
  for (const Product& p : work.products)
    if (!whole || p.part == ProductPart::linear) add(product(p));
  for (const Stream& s : work.streams)
    if (!whole || !s.in_attention) add(beside_device ? host_stream(s) : stream(s));
  return cost;
}

Cost EventTimes::copy(Direction direction, std::int64_t bytes) {
  const CopyModel* models[] = {&machine_.to_host, &machine_.to_device, &machine_.disk_read,
                               &machine_.disk_write};
  const CopyModel& model = *models[static_cast<std::size_t>(direction)];
  const Resource resource = is_disk(direction) ? Resource::disk : Resource::host_link;
  Cost cost;
  if (bytes == 0) return cost;
  if (!model.points.empty()) {
    const Estimate e = on_curve(model.points, as_double(bytes));
    cost[resource] = e.value / speeds_[resource];
    note(is_disk(direction) ? "sizes of transfers of the disk" : "sizes of copies", e.beyond);
  } else if (model.link.bytes_per_s > 0) {
    cost[resource] =
        (model.link.latency_s + as_double(bytes) / model.link.bytes_per_s) / speeds_[resource];
  }
  if (!is_disk(direction))
    cost[resource] *= turns_on_cores(machine_, busy_ranks_, machine_.node.ranks);
  return cost;
}

Cost EventTimes::collective(CollectiveShape shape) {
  shape.busy_ranks = std::max(busy_ranks_, shape.ranks_per_node);
  const CollectiveTime time = collective_time(machine_, shape);
  if (time.beyond >= 1.5)
    note(time.from_points ? "sizes of " + std::string(to_string(shape.op))
                          : "ranks of " + std::string(to_string(shape.op)),
         time.beyond);
  Cost cost;
  cost[Resource::latency] = time.latency_s / speeds_[Resource::latency];
  cost[Resource::network] = time.transfer_s / speeds_[Resource::network];
  return cost;
}

}  // namespace shardmark
