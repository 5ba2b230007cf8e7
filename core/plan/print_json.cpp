// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include <core/plan/print.hpp>
#include <core/plan/volume.hpp>

namespace shardmark {
namespace {

using Json = nlohmann::ordered_json;

// One collective of this rank.
Json row(const Program& p, const Event& e, int micro_batch) {
  Json r;
  r["phase"] = phase_name(e.phase, micro_batch);
  r["op"] = to_string(e.op);
  r["dtype"] = to_string(e.dtype);
  r["elems_in"] = e.operands.count > 0 ? p.operands[e.operands.first].elems : 0;
  r["elems_out"] = e.operands.count > 1 ? p.operands[e.operands.first + 1].elems : 0;
  if (e.reduction != Reduction::none) r["reduce_op"] = to_string(e.reduction);
  if (e.root >= 0) r["root"] = e.root;
  if (e.group != 0) r["group"] = p.groups[e.group].name;
  return r;
}

Json rows_of(const Program& p, const Segment& s, int micro_batch) {
  Json rows = Json::array();
  for (const Event& e : s.events)
    if (is_collective(e.op)) rows.push_back(row(p, e, micro_batch));
  return rows;
}

Json step_rows(const Program& p) {
  Json rows = Json::array();
  int g = 0;
  for (SegmentKind kind : step_segments(p.batch.accumulation)) {
    for (Json& r : rows_of(p, *p.find(kind), g)) rows.push_back(std::move(r));
    ++g;
  }
  return rows;
}

Json category_bytes(const CategoryBytes& bytes) {
  Json o = Json::object();
  for (int c = 0; c < category_count; ++c)
    if (bytes[c] > 0) o[std::string(to_string(static_cast<Category>(c)))] = bytes[c];
  return o;
}

// Both tiers together, by category: what is alive between the passes of the third step.
Json memory_at(const Program& p) {
  Json o = Json::object();
  auto at = [&](const std::string& key, SegmentKind kind) {
    const auto live = live_at(p, p.find(kind)->exit);
    CategoryBytes sum{};
    for (const CategoryBytes& tier : live)
      for (int c = 0; c < category_count; ++c) sum[c] += tier[c];
    o[key] = category_bytes(sum);
  };
  int g = 0;
  for (SegmentKind kind : step_segments(p.batch.accumulation)) {
    if (kind == SegmentKind::boundary) break;
    at("after_bwd" + std::to_string(g++), kind);
  }
  at("after_step", SegmentKind::update);
  return o;
}

Json memory(const Program& p, const Budgets& budgets) {
  const Footprint f = footprint(p);
  Json o;
  for (int t = 0; t < tier_count; ++t) {
    const TierFootprint& tier = f.tiers[t];
    Json m;
    m["peak"] = tier.peak_bytes;
    m["at"] = describe_event(p, tier.segment, tier.event);
    m["by_category"] = category_bytes(tier.at_peak);
    m["category_peaks"] = category_bytes(tier.category_peaks);
    m["arena"] = nullptr;  // memory_mode pooled is not modelled yet
    if (budgets[t]) m["fits"] = tier.peak_bytes <= *budgets[t];
    o[std::string(to_string(static_cast<Tier>(t)))] = std::move(m);
  }
  return o;
}

}  // namespace

Json print_json(const Program& p, const Budgets& budgets, const std::string& plan_hash) {
  Json o;
  o["rank"] = p.rank;
  o["world"] = p.world;
  o["stage"] = p.stage;
  o["schedule"] = p.schedule;
  o["parameters"] = p.model.elems;
  o["plan_hash"] = plan_hash;
  o["partition"] = {{"padded", p.partition.padded}, {"per_rank", p.partition.per_rank}};
  o["init"] = rows_of(p, *p.find(SegmentKind::init), 0);
  const Json rows = step_rows(p);  // `paper` does the same in every step
  o["steps"] = {{"0", rows}, {"1", rows}, {"steady", rows}};
  o["skipped"] = {{"0", Json::array()}, {"steady", Json::array()}};  // fp32 steps are never skipped
  o["memory_at"] = memory_at(p);
  o["memory"] = memory(p, budgets);
  const Volume steady = step_volume(p);
  Json traffic = Json::object();
  for (const auto& [op, t] : steady)
    traffic[std::string(to_string(op))] = {
        {"calls", t.calls}, {"elems", t.elems}, {"bytes", t.bytes}};
  o["volume"] = {{"steady", std::move(traffic)},
                 {"per_parameter", volume_per_parameter(p, steady)}};
  return o;
}

}  // namespace shardmark
