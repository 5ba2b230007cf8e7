// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <vector>

#include <core/percentile.hpp>
#include <core/plan/price/collective_time.hpp>
#include <miniapp/measure/timings.hpp>

namespace shardmark {

namespace {

// Collective. Whether the ranks of any group, as each rank lists its own, have different counts.
bool differ(std::size_t mine, const std::vector<int>& group, Peers& peers) {
  const auto counts = peers.gather(mine);
  int differs = 0;
  for (int r = 0; r < peers.size(); ++r)
    if (group.empty() || std::find(group.begin(), group.end(), r) != group.end())
      differs |= static_cast<int>(counts[r] != mine);
  return std::ranges::max(peers.gather(differs)) == 1;
}

// The timed calls of one group in their order, and when this rank issued them by rank 0's clock.
struct GroupCalls {
  std::vector<CollectiveRecord> records;
  std::vector<double> issued_s;
};

GroupCalls calls_of(int group, const std::vector<CollectiveRecord>& calls,
                    std::int64_t clock_offset_ns) {
  GroupCalls own;
  for (const CollectiveRecord& r : calls)
    if (r.group == group) {
      own.records.push_back(r);
      own.issued_s.push_back(static_cast<double>(r.issue_ns + clock_offset_ns) * 1e-9);
    }
  return own;
}

struct CallSums {
  std::vector<double> spans;
  double bytes = 0, late = 0, transfer = 0;
};

// A transfer starts when the last rank has issued it, at `last_issue_s` (by call).
std::map<Op, CallSums> sums_by_op(const GroupCalls& own, const std::vector<double>& last_issue_s) {
  std::map<Op, CallSums> by_op;
  for (std::size_t i = 0; i < own.records.size(); ++i) {
    const CollectiveRecord& r = own.records[i];
    CallSums& sums = by_op[r.op];
    const double span = static_cast<double>(r.done_ns - r.issue_ns) * 1e-9;
    const double late = std::clamp(last_issue_s[i] - own.issued_s[i], 0.0, span);
    sums.spans.push_back(span);
    sums.late += late;
    sums.transfer += span - late;
    sums.bytes += static_cast<double>(r.elems * dtype_bytes(r.dtype));
  }
  return by_op;
}

TimeResult times_per_step(const RunRecord& record, double steps) {
  const auto per_step = [steps](std::int64_t ns) { return static_cast<double>(ns) * 1e-9 / steps; };
  const LaneTimes& t = record.times;
  const std::int64_t hidden_ns = std::max<std::int64_t>(0, record.in_flight_ns - t.exposed);
  return {.forward = per_step(t.forward),
          .backward = per_step(t.backward),
          .optimizer = per_step(t.step),
          .copies = per_step(t.copies),
          .exposed = per_step(t.exposed),
          .hidden = per_step(hidden_ns),
          .matmul = per_step(record.matmul_ns)};
}

// The timed steps whose time is theirs alone: those that were not proved, or all if there are none.
std::vector<std::size_t> plain_steps(const RunRecord& record) {
  const auto first = static_cast<std::size_t>(record.warmup);
  std::vector<std::size_t> plain, all;
  for (std::size_t s = first; s < record.step_times.size(); ++s) {
    all.push_back(s);
    if (!record.proved[s]) plain.push_back(s);
  }
  return plain.empty() ? all : plain;
}

// A median, and the time of a step that it is of.
struct MedianOf {
  double PhaseMedians::*median;
  std::int64_t LaneTimes::*time;
};
constexpr MedianOf lane_medians[] = {{&PhaseMedians::forward, &LaneTimes::forward},
                                     {&PhaseMedians::backward, &LaneTimes::backward},
                                     {&PhaseMedians::optimizer, &LaneTimes::step},
                                     {&PhaseMedians::copies, &LaneTimes::copies},
                                     {&PhaseMedians::exposed, &LaneTimes::exposed}};

PhaseMedians medians(const RunRecord& record, const std::vector<std::size_t>& steps) {
  PhaseMedians medians;
  for (const auto& [median, time] : lane_medians) {
    std::vector<double> seconds;
    for (const std::size_t s : steps)
      seconds.push_back(static_cast<double>(record.step_times[s].*time) * 1e-9);
    medians.*median = percentile(std::move(seconds), 0.5);
  }
  return medians;
}

// Returns the means of these times over the ranks, which are those of a rank of mean speed.
PhaseMedians mean_of(const std::vector<PhaseMedians>& ranks) {
  PhaseMedians mean;
  for (const auto& [median, time] : lane_medians) {
    for (const PhaseMedians& r : ranks) mean.*median += r.*median;
    mean.*median /= static_cast<double>(ranks.size());
  }
  return mean;
}

// The tokens that the timed steps trained on. A `list` model has no tokens; its figure of merit
// counts each sample as one token.
double tokens_trained(const Deck& deck, const Program& program, const RunRecord& record,
                      const std::vector<LossRow>& rows, double steps) {
  const std::int64_t sequence = std::max<std::int64_t>(1, deck.model.sequence);
  const auto skipped = std::count_if(rows.begin() + static_cast<std::ptrdiff_t>(record.warmup),
                                     rows.end(), [](const LossRow& row) { return row.skipped; });
  return static_cast<double>(program.batch.global * sequence) *
         (steps - static_cast<double>(skipped));
}

// Returns how long the sampled steps took together, in steps of mean length. Waiting per step is
// divided by this, so that no rank waits longer per step than a step lasts, whatever is sampled.
double sampled_as_steps(const RunRecord& record, const std::vector<LossRow>& rows) {
  const std::vector<double> seconds = timed_seconds(record, rows);
  const double all = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  double sampled = 0;
  for (const std::size_t s : record.sampled_steps) sampled += seconds[s];
  return all > 0 ? sampled / all * static_cast<double>(seconds.size()) : 0;
}

// The time that this rank spent in calls waiting for another one, by the rank that came last.
// `last_rank` has that rank by call.
void add_waiting(const GroupCalls& own, const std::vector<double>& last_issue_s,
                 const std::vector<double>& last_rank, std::vector<double>& caused_s) {
  for (std::size_t i = 0; i < own.records.size(); ++i) {
    const auto blocked_s = static_cast<double>(own.records[i].blocked_ns) * 1e-9;
    const double late_s = std::clamp(last_issue_s[i] - own.issued_s[i], 0.0, blocked_s);
    if (last_rank[i] >= 0) caused_s[last_rank[i]] += late_s;
  }
}

// Values of all ranks are gathered in parts of so many, since ranks and steps may both be many.
constexpr std::size_t gathered_at_once = std::size_t{1} << 20;

std::vector<double> part_of(const std::vector<double>& values, std::size_t first,
                            std::size_t count) {
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

}  // namespace

// A NaN from a product of infinity and zero has a sign on some processors and is then written as
// "-nan", which tells a reader nothing.
double without_sign_of_nan(double value) {
  return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
}

void fill_rows(const RunRecord& record, std::int64_t accumulation, Peers& peers, Result& result) {
  const std::size_t steps = record.losses.size();
  const auto ranks = static_cast<std::size_t>(peers.size());
  const std::size_t at_once = std::max<std::size_t>(1, gathered_at_once / ranks);
  std::vector<double> losses, seconds;
  for (std::size_t s = 0; s < steps; ++s) {
    const std::size_t i = s % at_once, part = std::min(at_once, steps - (s - i));
    if (i == 0) {
      losses = peers.gather(part_of(record.losses, s, part));
      seconds = peers.gather(part_of(record.seconds, s, part));
    }
    LossRow row;
    row.step = record.first_step + static_cast<std::int64_t>(s);
    double sum = 0;
    for (std::size_t r = 0; r < ranks; ++r) {
      sum += losses[r * part + i];
      row.seconds = std::max(row.seconds, seconds[r * part + i]);
    }
    row.loss =
        without_sign_of_nan(sum / static_cast<double>(ranks) / static_cast<double>(accumulation));
    row.grad_norm = without_sign_of_nan(record.norms[s]);
    row.lr = record.lrs[s];
    row.loss_scale = record.loss_scales[s];
    row.skipped = record.skipped[s];
    result.rows.push_back(row);
  }
}

std::vector<double> timed_seconds(const RunRecord& record, const std::vector<LossRow>& rows) {
  std::vector<double> seconds;
  for (const LossRow& row : rows) seconds.push_back(row.seconds);
  return record.timed_part(seconds);
}

void time_calls(const Program& program, const RunRecord& record,
                const std::vector<CollectiveRecord>& calls, std::int64_t clock_offset_ns,
                Peers& peers, Result& result) {
  std::vector<double> caused_s(static_cast<std::size_t>(peers.size()));
  for (int group = 0; group < static_cast<int>(program.groups.size()); ++group) {
    const GroupCalls own = calls_of(group, calls, clock_offset_ns);
    // All ranks of a group have the same records in the same order, unless a rank has made a call
    // that is not planned; then there is nothing to compare.
    const std::vector<int>& ranks = program.groups[group].ranks;
    if (differ(own.records.size(), ranks, peers)) continue;
    std::vector<double> last_issue_s = own.issued_s;
    peers.max(last_issue_s, ranks);
    std::vector<double> last_rank;
    for (std::size_t i = 0; i < last_issue_s.size(); ++i)
      last_rank.push_back(own.issued_s[i] == last_issue_s[i] ? peers.rank() : -1);
    peers.max(last_rank, ranks);
    add_waiting(own, last_issue_s, last_rank, caused_s);
    for (const auto& [op, sums] : sums_by_op(own, last_issue_s)) {
      CollectiveResult& c = result.collectives[{group, op}];
      c.p50_s = percentile(sums.spans, 0.5);
      c.p99_s = percentile(sums.spans, 0.99);
      c.late_s = sums.late / static_cast<double>(sums.spans.size());
      if (sums.transfer > 0)
        c.bus_gb_s = sums.bytes / sums.transfer * ring_share(op, program.size_of(group)) * 1e-9;
    }
  }
  peers.sum(caused_s);
  const double steps = sampled_as_steps(record, result.rows);
  result.stragglers.ranks.resize(caused_s.size());
  for (std::size_t r = 0; r < caused_s.size(); ++r)
    result.stragglers.ranks[r].waiting_caused_s = steps > 0 ? caused_s[r] / steps : 0;
  result.timed_steps = record.steps;
  result.sampled_steps = std::ssize(record.sampled_steps);
}

void fill_times(const Deck& deck, const Program& program, const RunRecord& record, Peers& peers,
                Result& result) {
  const auto steps = static_cast<double>(std::max<std::int64_t>(1, record.steps));
  result.times = times_per_step(record, steps);
  const std::vector<std::size_t> plain = plain_steps(record);
  result.median_times = mean_of(peers.gather(medians(record, plain)));
  const std::vector<double> timed = timed_seconds(record, result.rows);
  std::vector<double> of_plain;
  for (const std::size_t s : plain) of_plain.push_back(result.rows[s].seconds);
  result.median_times.step = percentile(of_plain, 0.5);
  result.step_p50_s = percentile(timed, 0.5);
  result.step_p99_s = percentile(timed, 0.99);
  result.timed_s = std::ranges::max(peers.gather(record.timed_s));
  const auto all = peers.gather(result.times);
  // The rank that spends most time without waiting for the others.
  const auto slowest = std::ranges::max_element(all, {}, &TimeResult::own);
  result.slowest_rank = static_cast<int>(slowest - all.begin());
  result.slowest_times = *slowest;
  if (result.timed_s > 0 && record.steps > 0)
    result.tokens_per_s =
        tokens_trained(deck, program, record, result.rows, steps) / result.timed_s;
}

std::vector<std::int64_t> lane_begins_ns(const std::vector<CollectiveRecord>& records) {
  std::vector<std::int64_t> begins;
  std::map<int, std::int64_t> free_by_group;
  for (const CollectiveRecord& r : records) {
    std::int64_t& free_ns = free_by_group.try_emplace(r.group, INT64_MIN).first->second;
    begins.push_back(std::min(r.done_ns, std::max(r.issue_ns, free_ns)));
    free_ns = std::max(free_ns, r.done_ns);
  }
  return begins;
}

}  // namespace shardmark
