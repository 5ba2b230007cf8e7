// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include <core/plan/interpret/footprint.hpp>
#include <core/plan/interpret/human_bytes.hpp>
#include <core/plan/interpret/volume.hpp>
#include <miniapp/measure/bus_bandwidth.hpp>
#include <miniapp/measure/measure.hpp>

namespace shardmark {
namespace {

// The text of the lowest rank that has one.
std::string first_text(Peers& peers, const std::string& mine) {
  const auto all = peers.gather(mine);
  for (std::size_t r = 0; r < all.size(); ++r)
    if (!all[r].empty()) return fmt::format("rank {}: {}", r, all[r]);
  return {};
}

double percentile(std::vector<double> values, double p) {
  if (values.empty()) return 0;
  const auto rank = static_cast<std::size_t>(std::ceil(p * static_cast<double>(values.size())));
  const std::size_t i = std::clamp<std::size_t>(rank, 1, values.size()) - 1;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(i), values.end());
  return values[i];
}

// Time during which at least one collective was open: several in flight count once.
std::int64_t open_ns(std::vector<CollectiveRecord> records) {
  std::sort(
      records.begin(), records.end(),
      [](const CollectiveRecord& a, const CollectiveRecord& b) { return a.issue_ns < b.issue_ns; });
  std::int64_t sum = 0, until = INT64_MIN;
  for (const CollectiveRecord& r : records) {
    sum += std::max<std::int64_t>(0, r.done_ns - std::max(r.issue_ns, until));
    until = std::max(until, r.done_ns);
  }
  return sum;
}

std::string memory_difference(const TierResult& tier, std::string_view name, bool pooled) {
  std::string text;
  auto compare = [&](std::string_view what, std::int64_t predicted, std::int64_t measured) {
    if (predicted != measured)
      text +=
          fmt::format("{}{} {}: predicted {} bytes, measured {} ({:+})", text.empty() ? "" : ", ",
                      name, what, predicted, measured, measured - predicted);
  };
  compare(pooled ? "arena" : "live peak", tier.predicted_peak, tier.measured_peak);
  if (pooled) return text;  // one allocation: what is in it is predicted only
  for (int c = 0; c < category_count; ++c)
    compare(to_string(static_cast<Category>(c)), tier.predicted[c], tier.measured[c]);
  return text;
}

}  // namespace

void fill_rows(const Noted& noted, std::int64_t accumulation, Peers& peers, Result& result) {
  const std::size_t steps = noted.losses.size();
  const auto losses = peers.gather(noted.losses);
  const auto seconds = peers.gather(noted.seconds);
  const auto ranks = static_cast<std::size_t>(peers.size());
  for (std::size_t s = 0; s < steps; ++s) {
    LossRow row;
    row.step = noted.first_step + static_cast<std::int64_t>(s);
    double sum = 0;
    for (std::size_t r = 0; r < ranks; ++r) {
      sum += losses[r * steps + s];
      row.seconds = std::max(row.seconds, seconds[r * steps + s]);
    }
    row.loss = sum / static_cast<double>(ranks) / static_cast<double>(accumulation);
    row.grad_norm = noted.norms[s];
    row.lr = noted.lrs[s];
    row.loss_scale = noted.loss_scales[s];
    row.skipped = noted.skipped[s];
    result.rows.push_back(row);
  }
}

void compare_memory(const Program& program, const std::vector<bool>& ran,
                    const LedgerSnapshot& ledger, Peers& peers, Result& result,
                    Observed& observed) {
  const bool pooled = program.memory_mode == MemoryMode::pooled;
  const Footprint predicted = footprint(program, ran);
  const auto allocated = allocated_bytes(program);
  std::string difference;
  for (std::size_t t = 0; t < tier_count; ++t) {
    TierResult& tier = result.tiers[t];
    tier.live_peak = predicted.tiers[t].peak_bytes;
    tier.pinned_peak = predicted.tiers[t].pinned_peak_bytes;
    tier.predicted_peak = pooled ? allocated[t] : tier.live_peak;
    tier.predicted = predicted.tiers[t].category_peaks;
    tier.measured_peak = ledger.tiers[t].peak_bytes;
    tier.measured = ledger.tiers[t].category_peaks;
    tier.at = describe_event(program, predicted.tiers[t].segment, predicted.tiers[t].event);
    const std::string text = memory_difference(tier, to_string(static_cast<Tier>(t)), pooled);
    if (!text.empty())
      difference += fmt::format("{}{} (measured peak on acquiring {})",
                                difference.empty() ? "" : ", ", text, ledger.tiers[t].peak_at);
  }
  observed.memory_mismatch = first_text(peers, difference);
}

void compare_calls(const Program& program, const StepRunner& steps, const CommCounters& counted,
                   Peers& peers, Result& result, Observed& observed) {
  std::string difference;
  for (int group = 0; group < static_cast<int>(program.groups.size()); ++group) {
    const Volume predicted = steps.predicted(group), measured = counted.volume(group);
    for (int o = static_cast<int>(Op::all_gather); o <= static_cast<int>(Op::barrier); ++o) {
      const std::pair key{group, static_cast<Op>(o)};
      const auto of = [&](const Volume& v) {
        return v.contains(key.second) ? v.at(key.second) : Traffic{};
      };
      const Traffic want = of(predicted), have = of(measured);
      if (want == Traffic{} && have == Traffic{}) continue;
      CollectiveResult& c = result.collectives[key];
      c.predicted = want;
      c.measured = have;
      if (want != have)
        difference +=
            fmt::format("{}{}: predicted {} calls of {} elements in all, measured {} of {}",
                        difference.empty() ? "" : ", ", collective_name(program, key), want.calls,
                        want.elems, have.calls, have.elems);
    }
  }
  observed.calls_mismatch = first_text(peers, difference);
}

void compare_copies(const Deck& deck, const LinkVolume& predicted, const LinkVolume& carried,
                    const Noted& noted, Peers& peers, Result& result, Observed& observed) {
  const auto steps = static_cast<double>(std::max<std::int64_t>(1, noted.steps));
  result.emulated_link_gb_per_s = deck.machine.host_link_gbps;
  std::string difference;
  for (std::size_t d = 0; d < direction_count; ++d) {
    const LinkTimes& t = noted.link[d];
    result.link[d] = {predicted[d], carried[d], static_cast<double>(t.bytes) / steps,
                      static_cast<double>(t.busy_ns) * 1e-9 / steps,
                      static_cast<double>(t.exposed_ns) * 1e-9 / steps};
    if (predicted[d] == carried[d]) continue;
    difference +=
        fmt::format("{}{}: predicted {} copies of {} bytes in all, measured {} of {}",
                    difference.empty() ? "" : ", ", to_string(static_cast<Direction>(d)),
                    predicted[d].copies, predicted[d].bytes, carried[d].copies, carried[d].bytes);
  }
  observed.copies_mismatch = first_text(peers, difference);
}

// The kernel counts whole blocks, and what the file system reads for itself.
void compare_disk(const Executor& executor, Peers& peers, Result& result, Observed& observed) {
  const LinkVolume ours = executor.carried();
  const auto bytes = [&](Direction d) { return ours[static_cast<std::size_t>(d)].bytes; };
  if (bytes(Direction::host_to_nvme) > 0)
    result.disk = DiskResult{executor.disk().direct(), executor.disk().kernel_bytes()};
  std::string difference;
  if (result.disk && result.disk->direct && result.disk->kernel) {
    const auto compare = [&](std::string_view what, std::int64_t own, std::int64_t kernel) {
      constexpr std::int64_t slack = std::int64_t{1} << 20;
      if (kernel < own || kernel > own + own / 100 + slack)
        difference += fmt::format("{}{} {} bytes, the kernel {}", difference.empty() ? "" : ", ",
                                  what, own, kernel);
    };
    compare("read", bytes(Direction::nvme_to_host), result.disk->kernel->read);
    compare("wrote", bytes(Direction::host_to_nvme), result.disk->kernel->written);
  }
  observed.disk_mismatch = first_text(peers, difference);
}

void time_calls(const Program& program, const CommCounters& counted, std::int64_t clock_offset_ns,
                Peers& peers, Result& result) {
  struct Sums {
    std::vector<double> spans;
    double bytes = 0, late = 0, transfer = 0;
  };
  for (int group = 0; group < static_cast<int>(program.groups.size()); ++group) {
    std::vector<CollectiveRecord> records;
    std::vector<double> own_issue_s;
    for (const CollectiveRecord& r : counted.records())
      if (r.group == group) {
        records.push_back(r);
        own_issue_s.push_back(static_cast<double>(r.issue_ns + clock_offset_ns) * 1e-9);
      }
    // All ranks of a group have the same records in the same order; the transfer starts when the
    // last one came.
    std::vector<double> last_issue_s = own_issue_s;
    peers.max(last_issue_s, program.groups[group].ranks);

    std::map<Op, Sums> by_op;
    for (std::size_t i = 0; i < records.size(); ++i) {
      const CollectiveRecord& r = records[i];
      Sums& sums = by_op[r.op];
      const double span = static_cast<double>(r.done_ns - r.issue_ns) * 1e-9;
      const double late = std::clamp(last_issue_s[i] - own_issue_s[i], 0.0, span);
      sums.spans.push_back(span);
      sums.late += late;
      sums.transfer += span - late;
      sums.bytes += static_cast<double>(r.elems * dtype_bytes(r.dtype));
    }
    for (auto& [op, sums] : by_op) {
      CollectiveResult& c = result.collectives[{group, op}];
      c.p50_s = percentile(sums.spans, 0.5);
      c.p99_s = percentile(sums.spans, 0.99);
      c.late_s = sums.late / static_cast<double>(sums.spans.size());
      if (sums.transfer > 0)
        c.bus_gb_s = sums.bytes / sums.transfer * bus_factor(op, program.size_of(group)) * 1e-9;
    }
  }
}

void compare_system(const Deck& deck, const Noted& noted, const LedgerSnapshot& ledger,
                    Peers& peers, Result& result, Observed& observed) {
  result.device = device_figure(noted.device);
  // What is resident: both tiers, or the host's alone where the device has memory of its own.
  std::int64_t ledger_peak = ledger[Tier::host].peak_bytes;
  if (!result.device) ledger_peak += ledger[Tier::device].peak_bytes;
  result.rss_start = noted.rss_start;
  result.rss_peak = noted.rss_peak;
  const auto peaks = peers.gather(noted.rss_peak);
  result.rss_peak_most = *std::max_element(peaks.begin(), peaks.end());
  result.rss_excess = std::max<std::int64_t>(0, noted.rss_peak - noted.rss_start - ledger_peak);
  result.allowance =
      static_cast<std::int64_t>(std::llround(deck.memory.allowance_mib * 1024.0 * 1024.0));
  std::string wrong;
  if (result.rss_excess > result.allowance)
    wrong = fmt::format("{} resident beyond the ledger's peak, memory.allowance_mib allows {}",
                        human_bytes(result.rss_excess), human_bytes(result.allowance));
  if (const auto& d = result.device; d && d->judged() && d->excess_bytes > result.allowance)
    wrong += fmt::format(
        "{}{} of the device beyond the ledger's and the libraries', memory.allowance_mib allows {}",
        wrong.empty() ? "" : ", ", human_bytes(d->excess_bytes), human_bytes(result.allowance));
  observed.excess = first_text(peers, wrong);
}

void fill_times(const Deck& deck, const Program& program, const Noted& noted,
                const CommCounters& counted, Peers& peers, Result& result) {
  const auto steps = static_cast<double>(std::max<std::int64_t>(1, noted.steps));
  const auto per_step = [steps](std::int64_t ns) { return static_cast<double>(ns) * 1e-9 / steps; };
  const LaneTimes& t = noted.times;
  const std::int64_t hidden_ns = std::max<std::int64_t>(0, open_ns(counted.records()) - t.exposed);
  result.times = {.forward = per_step(t.forward),
                  .backward = per_step(t.backward),
                  .optimizer = per_step(t.step),
                  .copies = per_step(t.copies),
                  .exposed = per_step(t.exposed),
                  .hidden = per_step(hidden_ns),
                  .matmul = per_step(noted.matmul_ns)};
  std::vector<double> timed;
  for (std::size_t s = static_cast<std::size_t>(noted.warmup); s < result.rows.size(); ++s)
    timed.push_back(result.rows[s].seconds);
  result.step_p50_s = percentile(timed, 0.5);
  result.step_p99_s = percentile(timed, 0.99);
  const auto timed_s = peers.gather(noted.timed_s);
  result.timed_s = *std::max_element(timed_s.begin(), timed_s.end());
  const auto all = peers.gather(result.times);
  const auto slowest =
      std::max_element(all.begin(), all.end(),
                       [](const TimeResult& a, const TimeResult& b) { return a.own() < b.own(); });
  result.slowest_rank = static_cast<int>(slowest - all.begin());
  result.slowest_times = *slowest;
  // A `list` model has no tokens; its figure of merit counts samples, as one token each.
  const std::int64_t sequence = std::max<std::int64_t>(1, deck.model.sequence);
  const auto skipped =
      std::count_if(result.rows.begin() + static_cast<std::ptrdiff_t>(noted.warmup),
                    result.rows.end(), [](const LossRow& row) { return row.skipped; });
  const double tokens =
      static_cast<double>(program.batch.global * sequence) * (steps - static_cast<double>(skipped));
  if (result.timed_s > 0 && noted.steps > 0) result.tokens_per_s = tokens / result.timed_s;
}

}  // namespace shardmark
