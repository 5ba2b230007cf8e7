// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include <core/plan/interpret/arena.hpp>
#include <core/plan/interpret/copy_volume.hpp>
#include <core/plan/interpret/print.hpp>
#include <core/plan/interpret/volume.hpp>

namespace shardmark {
namespace {

using Json = nlohmann::ordered_json;

// One collective of this rank.
Json row(const Program& p, const Event& e, int micro_batch) {
  Json r;
  r["phase"] = phase_name(e.phase, micro_batch);
  r["op"] = to_string(e.op);
  r["dtype"] = e.op == Op::barrier ? "-" : to_string(e.dtype);
  // In elements of the event's type: a byte view has more of them than its slot.
  const auto elems = [&, ops = p.operands_of(e)](std::size_t i) {
    if (ops.size() <= i) return std::int64_t{0};
    return ops[i].elems * dtype_bytes(p.slots[ops[i].slot].dtype) / dtype_bytes(e.dtype);
  };
  r["elems_in"] = elems(0);
  r["elems_out"] = elems(1);
  if (e.reduction != Reduction::none) r["reduce_op"] = to_string(e.reduction);
  if (e.root >= 0) r["root"] = e.root;
  if (e.group != 0) r["group"] = p.groups[e.group].name;
  if (e.parts.count > 0) {
    const auto counts = std::span(p.part_counts).subspan(static_cast<std::size_t>(e.parts.first));
    const auto size = static_cast<std::size_t>(e.parts.count) / 2;
    r["parts"] = {counts.first(size), counts.subspan(size, size)};
  }
  return r;
}

Json rows_of(const Program& p, const Segment& s, int micro_batch) {
  Json rows = Json::array();
  for (const Event& e : s.events)
    if (is_collective(e.op)) rows.push_back(row(p, e, micro_batch));
  return rows;
}

struct ListedMicroBatch {
  int number, segment;
};

// The micro-batches of a step that are listed one by one: all of them, unless they are too many.
// Then those that repeat others are left out, and `repeated` says which ones.
class ListedMicroBatches {
 public:
  ListedMicroBatches(const Program& p, const Step& step) {
    std::int64_t rows = 0;
    for (const SegmentRun& run : step.micros.runs())
      for (int segment : run.segments) rows += run.times * collectives(p.segments[segment]);
    const bool all = step.micros.size() <= most_micro_batches_listed && rows <= most_rows_listed;
    std::int64_t first = 0;
    for (const SegmentRun& run : step.micros.runs()) {
      const auto length = static_cast<std::int64_t>(run.segments.size());
      for (std::int64_t g = 0; g < (all ? length * run.times : length); ++g)
        list_.push_back({static_cast<int>(first + g), run.segments[g % length]});
      if (!all && run.times > 1)
        repeated_.push_back({{"first", first}, {"micro_batches", length}, {"times", run.times}});
      first += length * run.times;
    }
  }
  const std::vector<ListedMicroBatch>& list() const { return list_; }
  const Json& repeated() const { return repeated_; }

 private:
  // A row takes about a kilobyte while it is being printed.
  static constexpr std::int64_t most_rows_listed = 100'000, most_micro_batches_listed = 10'000;

  static std::int64_t collectives(const Segment& s) {
    return std::ranges::count_if(s.events, [](const Event& e) { return is_collective(e.op); });
  }
  std::vector<ListedMicroBatch> list_;
  Json repeated_ = Json::array();
};

Json step_rows(const Program& p, int index, bool skipped) {
  Json rows = Json::array();
  const Step& step = p.steps[index];
  if (skipped && step.skip < 0) return rows;
  std::vector<ListedMicroBatch> segments = ListedMicroBatches(p, step).list();
  for (int segment : {step.boundary, skipped ? step.skip : step.update})
    segments.push_back({0, segment});
  for (const auto& [number, segment] : segments)
    for (Json& r : rows_of(p, p.segments[segment], number)) rows.push_back(std::move(r));
  return rows;
}

// By step: the micro-batches that were left out, if any.
Json repeated(const Program& p, const std::vector<std::pair<const char*, int>>& steps) {
  Json o = Json::object();
  for (const auto& [name, step] : steps)
    if (Json list = ListedMicroBatches(p, p.steps[step]).repeated(); !list.empty())
      o[name] = std::move(list);
  return o;
}

// Both tiers together, by the kind of a slot if it has one, otherwise by its category.
Json live_kinds(const Program& p, const Segment& segment) {
  Json o = Json::object();
  for (std::int32_t s : segment.exit.alive) {
    const Slot& slot = p.slots[s];
    const std::string key(slot.kind.empty() ? to_string(slot.category) : slot.kind);
    o[key] = o.value(key, std::int64_t{0}) + alloc_bytes(slot);
  }
  return o;
}

// The live bytes after each backward pass and after the update of the third step.
Json memory_at(const Program& p) {
  Json o = Json::object();
  int at = 0;
  for (int s = 0; s < 2; ++s) at = p.steps[at].after_update;
  const Step& third = p.steps[at];
  std::map<int, Json> known;  // by segment
  const ListedMicroBatches listed(p, third);
  for (const auto& [number, segment] : listed.list()) {
    const auto [it, fresh] = known.try_emplace(segment);
    if (fresh) it->second = live_kinds(p, p.segments[segment]);
    o["after_bwd" + std::to_string(number)] = it->second;
  }
  o["after_step"] = live_kinds(p, p.segments[third.update]);
  return o;
}

Json memory(const Program& p, const Budgets& budgets) {
  const Footprint f = footprint(p);
  const ArenaLayout arena = arena_layout(p);
  const auto allocated = allocated_bytes(p);
  Json o;
  for (const Tier t : all_values<Tier>) {
    const TierFootprint& tier = f.tiers[t];
    if (t == Tier::nvme && tier.peak_bytes == 0) continue;
    Json m;
    m["peak"] = tier.peak_bytes;
    m["at"] = describe_event(p, tier.segment, tier.event);
    m["by_category"] = category_json(tier.at_peak);
    m["category_peaks"] = category_json(tier.category_peaks);
    if (t != Tier::nvme) m["arena"] = arena.bytes[t];
    if (tier.pinned_peak_bytes > 0) m["pinned_peak"] = tier.pinned_peak_bytes;
    if (budgets[t]) m["fits"] = allocated[t] <= *budgets[t];
    o[std::string(to_string(t))] = std::move(m);
  }
  return o;
}

Json volumes(const Program& p) {
  const Volume steady = steady_volume(p);
  Json o = {{"steady", volume_json(steady)}, {"per_parameter", volume_per_parameter(p, steady)}};
  for (int g = 0; g < static_cast<int>(p.groups.size()) && p.groups.size() > 1; ++g) {
    const Volume part = steady_volume(p, g);
    o["by_group"][p.groups[g].name] = {{"steady", volume_json(part)},
                                       {"per_parameter", volume_per_parameter(p, part)}};
  }
  return o;
}

}  // namespace

Json category_json(const CategoryBytes& bytes) {
  Json o = Json::object();
  for (const Category c : all_values<Category>)
    if (bytes[c] > 0) o[std::string(to_string(c))] = bytes[c];
  return o;
}

Json volume_json(const Volume& volume) {
  Json o = Json::object();
  for (const auto& [op, t] : volume)
    o[std::string(to_string(op))] = {{"calls", t.calls}, {"elems", t.elems}, {"bytes", t.bytes}};
  return o;
}

Json print_json(const Program& p, const Budgets& budgets, const std::string& plan_hash) {
  Json o;
  o["rank"] = p.rank;
  o["world"] = p.world;
  o["stage"] = p.stage;
  o["schedule"] = to_string(p.schedule);
  o["parameters"] = p.model.elems;
  o["plan_hash"] = plan_hash;
  o["partition"] = {{"padded", p.partition.padded}, {"per_rank", p.partition.per_rank}};
  for (const Group& g : p.groups)
    if (!g.ranks.empty()) o["groups"][g.name] = g.ranks;
  o["init"] = rows_of(p, p.segments[0], 0);
  const int second = p.steps[0].after_update, last = step_path(p, false).back();
  o["steps"] = {{"0", step_rows(p, 0, false)},
                {"1", step_rows(p, second, false)},
                {"steady", step_rows(p, last, false)}};
  o["skipped"] = {{"0", step_rows(p, 0, true)},
                  {"steady", step_rows(p, step_path(p, true).back(), true)}};
  if (Json left_out = repeated(p, {{"0", 0}, {"1", second}, {"steady", last}}); !left_out.empty())
    o["repeated"] = std::move(left_out);
  o["memory_at"] = memory_at(p);
  o["memory"] = memory(p, budgets);
  o["volume"] = volumes(p);
  const LinkVolume link = steady_link_volume(p);
  if (link != LinkVolume{})
    for (const Direction d : all_values<Direction>) {
      const bool disk = is_disk(d);
      if (disk && link[d].copies == 0) continue;
      o[disk ? "disk" : "host_link"][std::string(to_string(d))] = {{"copies", link[d].copies},
                                                                   {"bytes", link[d].bytes}};
    }
  return o;
}

}  // namespace shardmark
