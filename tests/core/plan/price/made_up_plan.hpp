// SPDX-License-Identifier: Apache-2.0
// Plans and machines made by hand, of which the right time can be worked out by hand.
#pragma once

#include <core/error.hpp>
#include <core/plan/price/event_time.hpp>
#include <core/plan/price/price.hpp>

namespace shardmark::test::made_up {

inline constexpr double exact = 1e-9;

// A plan of one segment, event by event. Every slot has `elems` elements of fp32.
class Plan {
 public:
  explicit Plan(int world = 2) {
    p_.world = world;
    p_.mesh = Mesh(world, 0, {});
    p_.groups.push_back({"world", {}});
    p_.batch = {world, 1, 1};
    p_.segments.resize(4);
    p_.segments[1].kind = SegmentKind::micro;
    p_.segments[2].kind = SegmentKind::boundary;
    p_.segments[3].kind = SegmentKind::update;
    p_.steps.push_back({});
    p_.steps[0].micros = {1};
    p_.steps[0].boundary = 2;
    p_.steps[0].update = 3;
  }
  // A kernel that streams `bytes` bytes: it clears them.
  int kernel(std::int64_t bytes, std::vector<int> after = {}, Phase phase = Phase::forward) {
    Event e;
    e.kernel = Kernel::zero;
    e.phase = phase;
    p_.slots.push_back({.name = "x", .dtype = Dtype::uint8, .elems = bytes});
    e.operands = {static_cast<std::int32_t>(p_.operands.size()), 1};
    p_.operands.push_back({static_cast<std::int32_t>(p_.slots.size()) - 1, true, false, 0, bytes});
    return add(e, after);
  }
  int collective(std::int64_t bytes, std::vector<int> after = {}, Op op = Op::all_gather) {
    Event e;
    e.op = op;
    e.lane = Lane::comm;
    e.phase = Phase::forward;
    e.dtype = Dtype::uint8;
    e.elems = bytes;
    return add(e, after);
  }
  int copy(std::int64_t bytes, Tier to, std::vector<int> after = {}) {
    Event e;
    e.op = Op::copy;
    e.lane = to == Tier::nvme ? Lane::disk : Lane::copy;
    e.tier = to;
    e.phase = Phase::forward;
    e.dtype = Dtype::uint8;
    e.elems = bytes;
    return add(e, after);
  }
  void repeat(std::int64_t times) { p_.steps[0].micros.resize(times, 1); }
  const Program& program() const { return p_; }

 private:
  int add(Event e, const std::vector<int>& after) {
    e.after = {static_cast<std::int32_t>(p_.edges.size()), static_cast<std::int32_t>(after.size())};
    for (const int a : after) p_.edges.push_back(a);
    p_.segments[1].events.push_back(e);
    return static_cast<int>(p_.segments[1].events.size()) - 1;
  }
  Program p_;
};

// Memory moves 1 GB/s, the network 1 GB/s (two ranks: an all_gather of S sends S / 2), the host
// link 0.5 GB/s and the disk 0.25 GB/s. Nothing has a latency.
inline Machine machine(double compute_share = 0, double speed = 1, bool is_host = false) {
  Machine m;
  m.device.is_host = is_host;
  m.device.memory_bytes_per_s = 1e9;
  m.device.stream_efficiency = 1;
  NetworkLevel level;
  level.link.bytes_per_s = 1e9;
  level.compute_share = compute_share;
  level.speed_beside_compute = speed;
  m.network.push_back(level);
  m.to_device.link.bytes_per_s = m.to_host.link.bytes_per_s = 0.5e9;
  m.disk_read.link.bytes_per_s = m.disk_write.link.bytes_per_s = 0.25e9;
  return m;
}

inline PriceOptions on_one_node() {
  PriceOptions o;
  o.ranks_per_node = 8;
  return o;
}

inline double step(const Plan& plan, const Machine& m, const PriceOptions& o = on_one_node()) {
  return price(plan.program(), m, o).step_s;
}

inline constexpr std::int64_t mb = 1'000'000;

}  // namespace shardmark::test::made_up
