// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include <fmt/core.h>

#include <core/plan/interpret/arena.hpp>
#include <core/plan/interpret/footprint.hpp>
#include <core/text.hpp>

namespace shardmark {
namespace {

std::size_t index(Tier t) {
  return static_cast<std::size_t>(t);
}
std::size_t index(Category c) {
  return static_cast<std::size_t>(c);
}

// Live bytes while walking events; tells when a tier's or a category's maximum grows.
class Live {
 public:
  Live(const Program& program, const EndState& entry) : bytes_(live_at(program, entry)) {
    for (std::size_t t = 0; t < tier_count; ++t)
      total_[t] = std::accumulate(bytes_[t].begin(), bytes_[t].end(), std::int64_t{0});
    for (std::int32_t s : entry.alive)
      if (program.slots[s].pinned) pinned_[index(program.slots[s].tier)] += bytes_of(program, s);
  }
  // Whether the event changes anything.
  bool apply(const Program& program, const Event& e) {
    if (e.op != Op::acquire && e.op != Op::release) return false;
    const std::int64_t bytes = bytes_of(program, e.slot) * (e.op == Op::acquire ? 1 : -1);
    bytes_[index(e.tier)][index(e.category)] += bytes;
    total_[index(e.tier)] += bytes;
    if (program.slots[e.slot].pinned) pinned_[index(e.tier)] += bytes;
    return true;
  }
  std::int64_t total(std::size_t tier) const { return total_[tier]; }
  std::int64_t pinned(std::size_t tier) const { return pinned_[tier]; }
  const CategoryBytes& by_category(std::size_t tier) const { return bytes_[tier]; }

 private:
  static std::int64_t bytes_of(const Program& program, std::int32_t slot) {
    return alloc_bytes(program.slots[slot]);
  }
  std::array<CategoryBytes, tier_count> bytes_{};
  std::array<std::int64_t, tier_count> total_{}, pinned_{};
};

// Calls `look(segment, event, live)` before the first event (-1) and after each one that acquires
// or releases, until it returns false.
template<class Look>
void walk(const Program& program, const std::vector<bool>& only, Look look) {
  for (int s = 0; s < static_cast<int>(program.segments.size()); ++s) {
    if (!only.empty() && !only[s]) continue;
    const Segment& segment = program.segments[s];
    Live live(program, segment.entry);
    if (!look(s, -1, live)) return;
    for (int e = 0; e < static_cast<int>(segment.events.size()); ++e) {
      if (live.apply(program, segment.events[e]) && !look(s, e, live)) return;
    }
  }
}

bool on_device(const Program& p, State state) {
  return std::any_of(p.states.begin(), p.states.end(), [&](const StatePiece& s) {
    return s.state == state && p.slots[s.slot].tier == Tier::device;
  });
}

// What of the states can still leave the device.
std::string_view offload_left(const Program& p) {
  if (!traits(p.schedule).follows_deepspeed || p.stage == 0) return "";
  if (on_device(p, State::momentum)) return "offload_optimizer";
  return p.stage == 3 && on_device(p, State::param) ? "offload_param" : "";
}

std::string host_figures(const TierFootprint& tier, int ranks_per_node) {
  const auto ranks = static_cast<std::int64_t>(std::max(1, ranks_per_node));
  return fmt::format(" On each node {} need {} of it together, {} of that pinned.",
                     plural(ranks, "rank"), human_bytes(tier.peak_bytes * ranks),
                     human_bytes(tier.pinned_peak_bytes * ranks));
}

// What is on top of the model states is named only where they fit.
std::string host_advice(const Program& p) {
  std::string text = "fewer ranks on a node, ";
  text += p.stage < 3 ? "a higher ZeRO stage, " : "";
  return text + "more nodes, a smaller model, offloading less";
}

std::string device_advice(const Program& p, const TierFootprint& at, bool states_fit) {
  const auto& b = at.at_peak;
  const std::int64_t states = state_bytes(b);
  std::string text;
  auto add = [&](std::string_view s) {
    text += text.empty() ? std::string(s) : fmt::format(", {}", s);
  };
  if (p.stage < 3 && p.world > 1)
    add(fmt::format("ZeRO stage {}{}", p.stage + 1, p.stage < 2 ? " or higher" : ""));
  if (!offload_left(p).empty()) add(offload_left(p));
  if (p.shard_ranks < p.world)  // more ranks would hold the same again
    add("a larger run.shard_size");
  else
    add(p.stage > 0 ? "more ranks" : "a smaller model");
  if (!p.copies.empty()) add("a larger zero_hpz_partition_size, or none");
  if (!states_fit) return text;
  if (b[index(Category::activation)] > states / 4)
    add("a smaller train_micro_batch_size_per_gpu or sequence");
  if (b[index(Category::activation)] > states / 4 && !p.model.recompute)
    add("run.activation_checkpointing");
  const bool deepspeed = traits(p.schedule).follows_deepspeed;
  const std::int64_t gathered = b[index(Category::gathered)], bucket = b[index(Category::bucket)];
  if (!deepspeed && gathered + bucket > states / 2)
    add("smaller units (more layers of a smaller hidden size)");
  if (deepspeed && p.stage > 0 && bucket > states / 4) add("a smaller reduce_bucket_size");
  if (deepspeed && gathered > states / 4)
    add("a smaller stage3_max_live_parameters, stage3_prefetch_bucket_size or "
        "stage3_max_reuse_distance");
  return text;
}

std::string_view place(Tier tier) {
  static constexpr std::array<std::string_view, tier_count> places{
      "in device memory", "in host memory", "on the disk of nvme_path"};
  return places[index(tier)];
}

std::string advice(const Program& p, Tier tier, const TierFootprint& at, bool states_fit) {
  switch (tier) {
    case Tier::device: return device_advice(p, at, states_fit);
    case Tier::host: return host_advice(p);
    case Tier::nvme: break;
  }
  return "a disk with more room, more nodes, offload_optimizer.device \"cpu\"";
}

}  // namespace

std::array<CategoryBytes, tier_count> live_at(const Program& program, const EndState& end) {
  std::array<CategoryBytes, tier_count> bytes{};
  for (std::int32_t s : end.alive) {
    const Slot& slot = program.slots[s];
    bytes[index(slot.tier)][index(slot.category)] += alloc_bytes(slot);
  }
  return bytes;
}

std::int64_t state_bytes(const CategoryBytes& bytes) {
  std::int64_t sum = 0;
  for (Category c :
       {Category::param, Category::grad, Category::master, Category::momentum, Category::variance})
    sum += bytes[index(c)];
  return sum;
}

Footprint footprint(const Program& program, const std::vector<bool>& only) {
  Footprint f;
  walk(program, only, [&](int s, int e, const Live& live) {
    for (std::size_t t = 0; t < tier_count; ++t) {
      TierFootprint& tier = f.tiers[t];
      if (live.total(t) > tier.peak_bytes) {
        tier.peak_bytes = live.total(t);
        tier.at_peak = live.by_category(t);
        tier.segment = s, tier.event = e;
      }
      tier.pinned_peak_bytes = std::max(tier.pinned_peak_bytes, live.pinned(t));
      for (std::size_t c = 0; c < category_count; ++c)
        tier.category_peaks[c] = std::max(tier.category_peaks[c], live.by_category(t)[c]);
    }
    return true;
  });
  return f;
}

std::vector<std::array<CategoryBytes, tier_count>> live_after(const Program& program, int segment) {
  const Segment& s = program.segments[static_cast<std::size_t>(segment)];
  Live live(program, s.entry);
  std::vector<std::array<CategoryBytes, tier_count>> bytes;
  for (const Event& e : s.events) {
    live.apply(program, e);
    auto& now = bytes.emplace_back();
    for (std::size_t t = 0; t < tier_count; ++t) now[t] = live.by_category(t);
  }
  return bytes;
}

std::string describe_event(const Program& program, int segment, int event) {
  if (segment < 0) return "nothing";
  const Segment& s = program.segments[segment];
  if (event < 0) return s.name + ", entry";
  const Event& e = s.events[event];
  const std::string what =
      e.slot >= 0 ? program.slots[e.slot].name : std::string(to_string(e.kernel));
  return fmt::format("{}, event {}: {} {} ({})", s.name, event, to_string(e.op), what,
                     to_string(e.phase));
}

std::array<std::int64_t, tier_count> allocated_bytes(const Program& program) {
  const bool pooled = program.memory_mode == MemoryMode::pooled;
  std::array<std::int64_t, tier_count> bytes{};
  if (pooled) bytes = arena_layout(program).bytes;
  const Footprint f = footprint(program);
  for (std::size_t t = 0; t < tier_count; ++t)
    if (!pooled || t == index(Tier::nvme)) bytes[t] = f.tiers[t].peak_bytes;
  return bytes;
}

std::optional<std::string> over_shared_budget(const Program& program, std::int64_t bytes,
                                              int ranks_per_node) {
  const auto needed = allocated_bytes(program);
  const std::int64_t both = needed[index(Tier::device)] + needed[index(Tier::host)];
  if (needed[index(Tier::host)] == 0 || both <= bytes) return {};
  const TierFootprint host = footprint(program)[Tier::host];
  return fmt::format(
      "it does not fit in memory: rank {} needs {} as device memory and {} as host memory, which "
      "are the same here: the budget is {}, {} missing.{} What would help: {}",
      program.rank, human_bytes(needed[0]), human_bytes(needed[1]), human_bytes(bytes),
      human_bytes(both - bytes), host_figures(host, ranks_per_node), host_advice(program));
}

std::optional<std::string> over_budget(const Program& program, const Budgets& budgets,
                                       int ranks_per_node) {
  std::optional<std::string> refusal;
  const Footprint f = footprint(program);
  walk(program, {}, [&](int s, int e, const Live& live) {
    for (std::size_t t = 0; t < tier_count; ++t) {
      if (!budgets[t] || live.total(t) <= *budgets[t]) continue;
      const TierFootprint& tier = f.tiers[t];
      const Event* event = e >= 0 ? &program.segments[s].events[e] : nullptr;
      const bool states_fit = state_bytes(tier.at_peak) <= *budgets[t];
      refusal = fmt::format(
          "it does not fit {}: rank {} needs {} ({} bytes) at its peak, the "
          "budget is {}: {} missing.{} It would die at {} (category {}). {} What "
          "would help: {}",
          place(static_cast<Tier>(t)), program.rank, human_bytes(tier.peak_bytes), tier.peak_bytes,
          human_bytes(*budgets[t]), human_bytes(tier.peak_bytes - *budgets[t]),
          static_cast<Tier>(t) == Tier::host ? host_figures(tier, ranks_per_node) : "",
          describe_event(program, s, e), event ? to_string(event->category) : "model states",
          states_fit ? "The model states alone would fit; gathered units, buckets and activations "
                       "on top of them do not."
                     : "The model states alone do not fit.",
          advice(program, static_cast<Tier>(t), tier, states_fit));
      return false;
    }
    return true;
  });
  if (refusal) return refusal;
  const auto allocated = allocated_bytes(program);
  for (std::size_t t = 0; t < tier_count; ++t)
    if (budgets[t] && allocated[t] > *budgets[t])
      return fmt::format(
          "it does not fit {}: rank {} needs an arena of {} ({} bytes; {} of them at its "
          "peak, the rest lies in gaps), the budget is {}: {} missing.{} What would help: "
          "run.memory_mode \"strict\", {}",
          place(static_cast<Tier>(t)), program.rank, human_bytes(allocated[t]), allocated[t],
          f.tiers[t].peak_bytes, human_bytes(*budgets[t]), human_bytes(allocated[t] - *budgets[t]),
          static_cast<Tier>(t) == Tier::host ? host_figures(f.tiers[t], ranks_per_node) : "",
          advice(program, static_cast<Tier>(t), f.tiers[t], true));
  return {};
}

}  // namespace shardmark
