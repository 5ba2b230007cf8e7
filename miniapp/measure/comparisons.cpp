// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include <fmt/core.h>

#include <comm/communicator.hpp>
#include <core/plan/interpret/footprint.hpp>
#include <core/plan/interpret/planned_runs.hpp>
#include <core/plan/interpret/volume.hpp>
#include <core/plan/plan.hpp>
#include <core/text.hpp>
#include <miniapp/measure/comparisons.hpp>
#include <miniapp/measure/verdict.hpp>

namespace shardmark {

namespace {

// The rank of the program within one of its groups.
int rank_within(const Program& program, int group) {
  const std::vector<int>& ranks = program.groups[group].ranks;
  if (ranks.empty()) return program.rank;
  return static_cast<int>(std::find(ranks.begin(), ranks.end(), program.rank) - ranks.begin());
}

// Adds up what the program's rank moves in the collectives of `runs` in one group. S is the size of
// the whole array: an all_gather sends S/n and receives S, a reduce_scatter sends S and receives
// S/n, an all_reduce sends and receives S; only the root of a reduce receives, and only the root of
// a broadcast sends.
MovedVolume moved_by_runs(const Program& program, const SegmentRuns& runs, int group) {
  MovedVolume sum;
  const int rank = rank_within(program, group), size = program.size_of(group);
  for (std::size_t s = 0; s < runs.size(); ++s)
    for (const Event& e : program.segments[s].events) {
      if (!is_collective(e.op) || e.op == Op::barrier || e.group != group || runs[s] == 0) continue;
      if (e.parts.count > 0) {
        const auto parts = program.part_counts.begin() + e.parts.first;
        const auto elems = [&](int first) {
          return runs[s] * std::accumulate(parts + first, parts + first + size, std::int64_t{0});
        };
        sum[e.op].send(elems(0), e.dtype);
        sum[e.op].receive(elems(size), e.dtype);
        continue;
      }
      const std::int64_t all = e.elems * runs[s];
      const bool root = e.root == rank;
      Moved& moved = sum[e.op];
      if (e.op != Op::broadcast || root)
        moved.send(e.op == Op::all_gather ? all / size : all, e.dtype);
      if (e.op != Op::reduce || root)
        moved.receive(e.op == Op::reduce_scatter ? all / size : all, e.dtype);
    }
  return sum;
}

std::string memory_difference(const TierResult& tier, std::string_view name, bool pooled) {
  std::string text;
  auto compare = [&](std::string_view what, std::int64_t predicted, std::int64_t measured) {
    if (predicted != measured)
      add_item(text, fmt::format("{} {}: predicted {} bytes, measured {} ({:+})", name, what,
                                 predicted, measured, measured - predicted));
  };
  compare(pooled ? "arena" : "live peak", tier.predicted_peak, tier.measured_peak);
  if (pooled) return text;  // the arena is one allocation, so its categories are not measured
  for (const Category c : all_values<Category>)
    compare(to_string(c), tier.predicted[c], tier.measured[c]);
  return text;
}

// What the back-end moved beneath the calls.
std::string moved_difference(const Program& program, int group, MovedVolume planned,
                             MovedVolume counted) {
  std::string text;
  for (int o = static_cast<int>(Op::all_gather); o < static_cast<int>(Op::barrier); ++o) {
    const Op op = static_cast<Op>(o);
    const Moved &want = planned[op], &have = counted[op];
    if (want == have) continue;
    add_item(
        text,
        fmt::format(
            "{} beneath the calls: predicted {} elements ({} bytes) sent and {} ({}) received, "
            "measured {} ({}) and {} ({})",
            collective_name(program, {group, op}), want.sent_elems, want.sent_bytes,
            want.received_elems, want.received_bytes, have.sent_elems, have.sent_bytes,
            have.received_elems, have.received_bytes));
  }
  return text;
}

// A segment without collectives shows only here that it was run too often.
std::string segment_difference(const Program& program, const SegmentRuns& planned,
                               const SegmentRuns& counted) {
  std::string text;
  for (std::size_t s = 0; s < planned.size(); ++s)
    if (planned[s] != counted[s])
      add_item(text, fmt::format("segment {}: {} runs are planned, {} were made",
                                 program.segments[s].name, planned[s], counted[s]));
  return text;
}

}  // namespace

void compare_memory(const Program& program, const std::vector<bool>& ran,
                    const LedgerSnapshot& ledger, const SlotUse& slots, Peers& peers,
                    Result& result, Observed& observed) {
  const bool pooled = program.memory_mode == MemoryMode::pooled;
  const Footprint predicted = footprint(program, ran);
  const auto allocated = allocated_bytes(program);
  std::string difference;
  for (const Tier t : all_values<Tier>) {
    TierResult& tier = result.tiers[t];
    tier.live_peak = predicted.tiers[t].peak_bytes;
    tier.pinned_peak = predicted.tiers[t].pinned_peak_bytes;
    tier.predicted_peak = pooled ? allocated[t] : tier.live_peak;
    tier.predicted = predicted.tiers[t].category_peaks;
    tier.measured_peak = ledger.tiers[t].peak_bytes;
    tier.measured = ledger.tiers[t].category_peaks;
    tier.at = describe_event(program, predicted.tiers[t].segment, predicted.tiers[t].event);
    const std::string text = memory_difference(tier, to_string(t), pooled);
    if (!text.empty())
      add_item(difference,
               fmt::format("{} (measured peak on acquiring {})", text, ledger.tiers[t].peak_at));
  }
  if (!slots.wrong.empty()) add_item(difference, slots.wrong);
  observed.memory_mismatch = peers.first_text(difference);
}

void compare_calls(const Program& program, const SegmentRuns& runs, const CountedRuns& counted,
                   Peers& peers, Result& result, Observed& observed) {
  std::string difference = segment_difference(program, runs, counted.segments);
  for (int group = 0; group < static_cast<int>(program.groups.size()); ++group) {
    const Volume predicted = volume_of_runs(program, runs, group);
    const Volume measured = counted.collectives.volume(group);
    for (int o = static_cast<int>(Op::all_gather); o <= static_cast<int>(Op::barrier); ++o) {
      const std::pair key{group, static_cast<Op>(o)};
      const auto of = [&](const Volume& v) {
        return v.contains(key.second) ? v.at(key.second) : Traffic{};
      };
      Traffic want = of(predicted);
      const Traffic have = of(measured);
      if (want == Traffic{} && have == Traffic{}) continue;
      CollectiveResult& c = result.collectives[key];
      c.predicted = want;
      c.measured = have;
      if (group == program.expert_group && key.second == Op::all_to_all) {
        c.routed = counted.routed.counted;
        want += c.routed;
      }
      if (want != have)
        add_item(difference,
                 fmt::format("{}: predicted {} calls of {} elements in all, measured {} of {}",
                             collective_name(program, key), want.calls, want.elems, have.calls,
                             have.elems));
    }
  }
  for (int group = 0; group < static_cast<int>(program.groups.size()); ++group) {
    MovedVolume planned = moved_by_runs(program, runs, group);
    if (group == program.expert_group) planned[Op::all_to_all].add(counted.routed.moved);
    const std::string moved =
        moved_difference(program, group, std::move(planned), counted.collectives.moved(group));
    if (!moved.empty()) add_item(difference, moved);
  }
  observed.calls_mismatch = peers.first_text(difference);
}

void compare_copies(const Deck& deck, const LinkVolume& predicted, const LinkVolume& carried,
                    const RunRecord& record, Peers& peers, Result& result, Observed& observed) {
  const auto steps = static_cast<double>(std::max<std::int64_t>(1, record.steps));
  result.emulated_link_gb_per_s = deck.machine.host_link_gbps;
  std::string difference;
  for (const Direction d : all_values<Direction>) {
    const LinkTimes& t = record.link[d];
    result.link[d] = {predicted[d], carried[d], static_cast<double>(t.bytes) / steps,
                      static_cast<double>(t.busy_ns) * 1e-9 / steps,
                      static_cast<double>(t.exposed_ns) * 1e-9 / steps};
    if (predicted[d] == carried[d]) continue;
    add_item(
        difference,
        fmt::format("{}: predicted {} copies of {} bytes in all, measured {} of {}", to_string(d),
                    predicted[d].copies, predicted[d].bytes, carried[d].copies, carried[d].bytes));
  }
  observed.copies_mismatch = peers.first_text(difference);
}

// The kernel counts whole blocks, and also what the file system reads for its own use.
void compare_disk(const LinkVolume& carried, const DiskResult& kernel, Peers& peers, Result& result,
                  Observed& observed) {
  const auto bytes = [&](Direction d) { return carried[d].bytes; };
  if (bytes(Direction::host_to_nvme) > 0) result.disk = kernel;
  std::string difference;
  if (result.disk && result.disk->direct && result.disk->kernel) {
    const auto compare = [&](std::string_view what, std::int64_t own, std::int64_t counted) {
      constexpr std::int64_t slack = std::int64_t{1} << 20;
      if (counted < own || counted > own + own / 100 + slack)
        add_item(difference, fmt::format("{} {} bytes, the kernel {}", what, own, counted));
    };
    compare("read", bytes(Direction::nvme_to_host), result.disk->kernel->read);
    compare("wrote", bytes(Direction::host_to_nvme), result.disk->kernel->written);
  }
  observed.disk_mismatch = peers.first_text(difference);
}

void compare_system(const Deck& deck, const RunRecord& record, const LedgerSnapshot& ledger,
                    Peers& peers, Result& result, Observed& observed) {
  result.device = device_figure(record.device, ledger[Tier::device].live_bytes);
  // Resident memory contains both tiers, or only the host's if the device has its own memory.
  std::int64_t ledger_peak = ledger[Tier::host].peak_bytes;
  if (!result.device) ledger_peak += ledger[Tier::device].peak_bytes;
  result.rss_start = record.rss_start;
  result.rss_peak = record.rss_peak;
  result.replay_copy = record.kept_bytes;
  result.rss_libraries = record.rss_libraries;
  result.rss_peak_most = std::ranges::max(peers.gather(record.rss_peak));
  result.outside = record.outside;
  result.rss_excess = std::max<std::int64_t>(
      0, record.rss_peak - record.rss_start_files - record.rss_libraries - ledger_peak -
             record.kept_bytes - record.emulated.buffer_bytes + record.outside.total());
  result.allowance =
      allowance_bytes(deck, ledger[Tier::host].peak_bytes + ledger[Tier::device].peak_bytes,
                      result.device.has_value());
  std::string wrong;
  if (result.rss_excess > result.allowance)
    wrong = fmt::format("{} beyond the ledger's peak{}, memory.allowance_mib allows {}",
                        human_bytes(result.rss_excess),
                        record.outside.total() > 0 ? " (" + describe(record.outside) + ")" : "",
                        human_bytes(result.allowance));
  if (const auto& d = result.device; d && d->judged() && d->excess_bytes > result.allowance)
    add_item(wrong, fmt::format("{} of the device beyond the ledger's and the libraries', "
                                "memory.allowance_mib allows {}",
                                human_bytes(d->excess_bytes), human_bytes(result.allowance)));
  observed.excess = peers.first_text(wrong);
}

}  // namespace shardmark
