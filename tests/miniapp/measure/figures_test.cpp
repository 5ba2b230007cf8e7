// SPDX-License-Identifier: Apache-2.0
// The figures of a report from records that are written by hand, with the values that they must
// have. Every rank has other records, so that a figure of the wrong rank is wrong.
#include <limits>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <miniapp/measure/comparisons.hpp>
#include <miniapp/measure/stragglers.hpp>
#include <miniapp/measure/timings.hpp>
#include <tests/support/programs.hpp>
#include <tests/support/world.hpp>

namespace shardmark::test::figures_test {
namespace {

constexpr std::int64_t ms = 1'000'000, second = 1'000'000'000;
constexpr std::int64_t mib = std::int64_t{1} << 20;
const std::pair all_reduces{0, Op::all_reduce};

class Figures : public ::testing::Test {
 protected:
  const int ranks = world_size(), rank = world_rank();
  std::unique_ptr<Communicator> lane = make_world(make_options());
  Peers peers{*lane};
  const Program p = program(gpt2_deck(2), ranks, rank);
  Result result;
};

CollectiveRecord call(std::int64_t issue_ns, std::int64_t done_ns, Op op = Op::all_reduce) {
  return {op, Dtype::fp32, 1000, -1, 0, issue_ns, done_ns, 0};
}

RunRecord record_of(std::vector<double> seconds, std::int64_t warmup) {
  RunRecord record;
  record.seconds = std::move(seconds);
  const std::size_t n = record.seconds.size();
  record.losses = record.norms = record.lrs = record.loss_scales = std::vector<double>(n, 1);
  record.skipped.assign(n, false);
  record.proved.assign(n, false);
  record.warmup = warmup, record.steps = static_cast<std::int64_t>(n) - warmup;
  return record;
}

// Rank r starts each of 100 calls r ms after rank 0, all are done together, and the last rank needs
// 2 to 101 ms. The clocks of the ranks are 5 s apart.
TEST_F(Figures, late_ranks_are_no_part_of_a_transfer) {
  const std::int64_t ahead = rank * 5 * second;
  const RunRecord record;
  std::vector<CollectiveRecord> calls;
  for (std::int64_t i = 0; i < 100; ++i)
    calls.push_back(
        call(ahead + i * second + rank * ms, ahead + i * second + (ranks - 1) * ms + (i + 2) * ms));
  time_calls(p, record, calls, -ahead, peers, result);
  const CollectiveResult& c = result.collectives.at(all_reduces);
  const double waited = 1e-3 * (ranks - 1 - rank);
  EXPECT_NEAR(c.late_s, waited, 1e-9);
  EXPECT_NEAR(c.p50_s, waited + 0.051, 1e-9) << "the 50th of 100";
  EXPECT_NEAR(c.p99_s, waited + 0.100, 1e-9) << "the 99th of 100";
  // 400 000 bytes in 5.15 s, by the factor of nccl-tests.
  EXPECT_NEAR(c.bus_gb_s, 400'000 / 5.15 * 1e-9 * 2 * (ranks - 1) / ranks, 1e-15);
}

// Rank r starts r ms after rank 0 and is blocked until the end, so all wait for the last rank. The
// two sampled steps of the four took twice as long as the others.
TEST_F(Figures, waiting_is_charged_to_the_rank_that_comes_last) {
  CollectiveRecord late = call(rank * ms, ranks * ms);
  late.blocked_ns = late.done_ns - late.issue_ns;
  const CollectiveRecord hidden = call(second + rank * ms, second + ranks * ms);
  RunRecord record = record_of({9, 2, 1, 2, 1}, 1);
  record.sampled_steps = {0, 2};
  fill_rows(record, 1, peers, result);
  time_calls(p, record, {late, hidden}, 0, peers, result);
  EXPECT_EQ(result.sampled_steps, 2);
  EXPECT_EQ(result.timed_steps, 4);
  ASSERT_EQ(result.stragglers.ranks.size(), static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) {
    // Per step of mean length: two steps of 2 s are 8/3 steps of 1.5 s.
    const double waited = r == ranks - 1 ? 1e-3 * ranks * (ranks - 1) / 2 / (8.0 / 3) : 0;
    EXPECT_NEAR(result.stragglers.ranks[static_cast<std::size_t>(r)].waiting_caused_s, waited,
                1e-9);
  }
}

// One warm-up step, which counts nowhere, and four timed steps; rank r is r s slower in each.
TEST_F(Figures, steps_of_each_rank_are_the_timed_ones) {
  RunRecord record = record_of({90.0 + rank, 1.0 + rank, 4.0 + rank, 2.0 + rank, 3.0 + rank}, 1);
  for (const std::int64_t own_ms : {90'000, 100, 400, 200, 300})
    record.step_times.push_back({.forward = own_ms * ms + rank * second});
  record.injected_seconds = {50, 0, 2.0 * rank, 0, 0};
  record.memory_traffic = {7, 0, 0, 0, 0};
  fill_rows(record, 1, peers, result);
  result.stragglers.ranks.resize(static_cast<std::size_t>(ranks));
  for (RankSteps& steps : result.stragglers.ranks) steps.waiting_caused_s = 8;
  fill_stragglers(record, {ranks - 1}, peers, result);
  for (int r = 0; r < ranks; ++r) {
    const RankSteps& steps = result.stragglers.ranks[static_cast<std::size_t>(r)];
    EXPECT_NEAR(steps.p50_s, 0.2 + r, 1e-12);
    EXPECT_NEAR(steps.p99_s, 0.4 + r, 1e-12);
    EXPECT_NEAR(steps.worst_s, 0.4 + r, 1e-12);
    EXPECT_EQ(steps.waiting_caused_s, 8) << "as time_calls left it";
  }
  EXPECT_NEAR(result.stragglers.worst_step_s, 4.0 + ranks - 1, 1e-12);
  ASSERT_TRUE(result.stragglers.perturb);
  EXPECT_EQ(result.stragglers.perturb->slow_steps, ranks > 1 ? 1 : 0);
  EXPECT_NEAR(result.stragglers.perturb->injected_s, 2.0 * (ranks - 1), 1e-12);
  EXPECT_EQ(result.stragglers.perturb->written_bytes, 0);
}

TEST(LostTime, is_what_slow_steps_take_beyond_the_median_of_the_others) {
  const PerturbResult lost = lost_time({1, 4, 2, 3, 3}, {0, 1, 0, 0.5, 0});
  EXPECT_EQ(lost.slow_steps, 2);
  EXPECT_DOUBLE_EQ(lost.injected_s, 1.5);
  EXPECT_DOUBLE_EQ(lost.lost_s, 3);  // beyond 2 s
  EXPECT_DOUBLE_EQ(lost.amplification().value(), 2);
  EXPECT_FALSE(lost_time({1, 2}, {1, 1}).amplification()) << "no step to compare with";
  EXPECT_FALSE(lost_time({1, 2}, {0, 0}).amplification());
  const PerturbResult traffic = lost_time({1, 4, 2, 3, 3}, {0, 0, 0, 0, 0}, {0, 8, 0, 2, 0});
  EXPECT_EQ(traffic.slow_steps, 2);
  EXPECT_DOUBLE_EQ(traffic.lost_s, 3);
  EXPECT_DOUBLE_EQ(traffic.written_s, 7);
  EXPECT_TRUE(traffic.comparable);
  EXPECT_FALSE(traffic.amplification()) << "no rank was held up for a known time";
}

// The root of a broadcast may be done before another rank starts; the wait is then the whole call.
TEST_F(Figures, a_wait_is_no_longer_than_its_call) {
  const std::int64_t begin = rank == 0 ? 0 : 10 * ms;
  time_calls(p, RunRecord{}, {call(begin, begin + ms, Op::broadcast)}, 0, peers, result);
  const CollectiveResult& c = result.collectives.at({0, Op::broadcast});
  EXPECT_NEAR(c.late_s, rank == 0 && ranks > 1 ? 1e-3 : 0, 1e-9);
  EXPECT_NEAR(c.bus_gb_s, rank == 0 && ranks > 1 ? 0 : 4000 / 1e-3 * 1e-9, 1e-9);
}

TEST_F(Figures, rows_have_the_mean_loss_and_the_slowest_ranks_time) {
  RunRecord record = record_of({0.1 * (rank + 1), 0.1 * (ranks - rank)}, 0);
  record.first_step = 7;
  record.losses = {6.0 * (rank + 1), 12.0};
  record.norms = {3, 4}, record.lrs = {5, 6}, record.loss_scales = {7, 8};
  record.skipped = {false, true};
  fill_rows(record, 3, peers, result);
  ASSERT_EQ(result.rows.size(), 2U);
  EXPECT_NEAR(result.rows[0].loss, ranks + 1, 1e-12) << "over ranks and three micro-batches";
  EXPECT_NEAR(result.rows[1].loss, 4, 1e-12);
  for (std::size_t s = 0; s < 2; ++s) {
    const LossRow& row = result.rows[s];
    const auto i = static_cast<double>(s);
    EXPECT_EQ(row.step, 7 + static_cast<int>(s));
    EXPECT_NEAR(row.seconds, 0.1 * ranks, 1e-12);
    EXPECT_EQ(row.grad_norm, 3 + i);
    EXPECT_EQ(row.lr, 5 + i);
    EXPECT_EQ(row.loss_scale, 7 + i);
    EXPECT_EQ(row.skipped, s == 1);
  }
}

// Infinity times zero has a sign on x86, which a reader would look for a meaning in.
TEST_F(Figures, what_is_not_a_number_has_no_sign) {
  const double signed_nan = -std::numeric_limits<double>::quiet_NaN();
  RunRecord record = record_of({0.1}, 0);
  record.losses = record.norms = {signed_nan};
  fill_rows(record, 1, peers, result);
  ASSERT_EQ(result.rows.size(), 1U);
  EXPECT_EQ(fmt::format("{} {}", result.rows[0].loss, result.rows[0].grad_norm), "nan nan");
}

// Two warm-up steps, of which one is skipped, and five timed steps, of which one is skipped.
TEST_F(Figures, tokens_are_those_of_timed_steps_that_were_not_skipped) {
  Deck deck = gpt2_deck(2);
  RunRecord record = record_of({9, 9, 0.2, 0.5, 0.1, 0.4, 0.3}, 2);
  record.skipped[1] = record.skipped[4] = true;
  record.timed_s = 2.0 + rank;
  fill_rows(record, 1, peers, result);
  fill_times(deck, p, record, peers, result);
  EXPECT_EQ(result.timed_s, ranks + 1.0) << "of the slowest rank";
  EXPECT_NEAR(result.tokens_per_s,
              static_cast<double>(p.batch.global * deck.model.sequence * 4) / (ranks + 1), 1e-9);
  EXPECT_NEAR(result.step_p50_s, 0.3, 1e-12) << "of the timed steps";
  EXPECT_NEAR(result.step_p99_s, 0.5, 1e-12);
}

TEST_F(Figures, hidden_is_what_was_in_flight_and_not_exposed) {
  RunRecord record = record_of({1, 1, 1, 1, 1}, 0);
  record.in_flight_ns = 25 * ms;
  record.times.exposed = 10 * ms;
  record.times.copies = 35 * ms;
  record.matmul_ns = 40 * ms;
  fill_times(gpt2_deck(2), p, record, peers, result);
  EXPECT_NEAR(result.times.exposed, 2e-3, 1e-12) << "per step";
  EXPECT_NEAR(result.times.hidden, 3e-3, 1e-12);
  EXPECT_NEAR(result.times.copies, 7e-3, 1e-12);
  EXPECT_NEAR(result.times.matmul, 8e-3, 1e-12);
  record.times.exposed = 26 * ms;
  fill_times(gpt2_deck(2), p, record, peers, result);
  EXPECT_EQ(result.times.hidden, 0) << "never negative";
}

// One warm-up step, three timed ones of which one is disturbed, and two that are proved.
TEST_F(Figures, the_times_that_predictions_are_compared_with_are_medians) {
  RunRecord record = record_of({7, 0.2, 9, 0.1, 3, 4}, 1);
  record.proved = {false, false, false, false, true, true};
  for (const std::int64_t times : {700, 2, 900, 1, 300, 400}) {
    LaneTimes t{.forward = times * ms, .backward = 3 * times * ms, .step = 5 * times * ms};
    t.copies = 7 * times * ms, t.exposed = 9 * times * ms;
    record.step_times.push_back(t);
  }
  fill_rows(record, 1, peers, result);
  fill_times(gpt2_deck(2), p, record, peers, result);
  EXPECT_NEAR(result.median_times.step, 0.2, 1e-12);
  EXPECT_NEAR(result.step_p50_s, 3, 1e-12) << "of all timed steps";
  EXPECT_NEAR(result.median_times.forward, 2e-3, 1e-12);
  EXPECT_NEAR(result.median_times.backward, 6e-3, 1e-12);
  EXPECT_NEAR(result.median_times.optimizer, 10e-3, 1e-12);
  EXPECT_NEAR(result.median_times.copies, 14e-3, 1e-12);
  EXPECT_NEAR(result.median_times.exposed, 18e-3, 1e-12);
  record.proved.assign(6, true);
  fill_times(gpt2_deck(2), p, record, peers, result);
  EXPECT_NEAR(result.median_times.step, 3, 1e-12) << "there are no others";
}

// Each rank waits for the last one, which works most; prices are those of a rank of mean speed.
TEST_F(Figures, predictions_are_compared_with_the_mean_rank) {
  RunRecord record = record_of({1}, 0);
  fill_rows(record, 1, peers, result);
  LaneTimes t{.forward = (2 + rank) * ms, .backward = ms, .step = (1 + ranks - rank) * ms};
  t.exposed = (ranks - rank - 1) * ms;
  record.step_times.push_back(t);
  fill_times(gpt2_deck(2), p, record, peers, result);
  EXPECT_NEAR(result.median_times.forward, (2 + (ranks - 1) / 2.0) * 1e-3, 1e-12);
  EXPECT_NEAR(result.median_times.optimizer, (1 + (ranks + 1) / 2.0) * 1e-3, 1e-12);
  EXPECT_NEAR(result.median_times.exposed, (ranks - 1) / 2.0 * 1e-3, 1e-12);
}

// Rank 0 spends most time, but waits; the last rank works most.
TEST_F(Figures, the_slowest_rank_is_the_one_that_works_most) {
  RunRecord record = record_of({1}, 0);
  record.times.forward = (20 - rank) * ms;
  record.times.backward = 30 * ms;
  record.times.step = 10 * ms;
  record.times.exposed = 3 * (ranks - 1 - rank) * ms;
  fill_times(gpt2_deck(2), p, record, peers, result);
  EXPECT_EQ(result.slowest_rank, ranks - 1);
  EXPECT_NEAR(result.slowest_times.own(), 1e-3 * (60 - (ranks - 1)), 1e-12);
  EXPECT_NEAR(result.times.own(), 1e-3 * (60 - rank - 3 * (ranks - 1 - rank)), 1e-12);
  record.times.exposed = rank == 0 ? 0 : 9 * ms;
  fill_times(gpt2_deck(2), p, record, peers, result);
  EXPECT_EQ(result.slowest_rank, 0);
}

// The kernel may count a block and 1 % more than was carried, and never less, on any rank.
TEST_F(Figures, the_kernels_count_of_a_disk_is_compared_on_every_rank) {
  const auto difference = [&](std::int64_t read, std::int64_t written, int bad_rank, bool direct,
                              bool counts = true) {
    const std::int64_t own = 200 * mib;
    LinkVolume carried{};
    carried[static_cast<std::size_t>(Direction::nvme_to_host)] = {1, own};
    carried[static_cast<std::size_t>(Direction::host_to_nvme)] = {1, own};
    DiskResult kernel{direct, DiskBytes{own, own}};
    if (rank == bad_rank) kernel.kernel = DiskBytes{own + read, own + written};
    if (!counts) kernel.kernel.reset();
    Observed observed;
    Result r;
    compare_disk(carried, kernel, peers, r, observed);
    EXPECT_TRUE(r.disk);
    return observed.disk_mismatch;
  };
  for (int r = 0; r < ranks; ++r) {
    EXPECT_EQ(difference(3 * mib, 3 * mib, r, true), "");
    const std::string name = "rank " + std::to_string(r) + ": ";
    EXPECT_EQ(difference(3 * mib + 1, 0, r, true).substr(0, name.size() + 4), name + "read");
    EXPECT_EQ(difference(-1, 0, r, true).substr(0, name.size() + 4), name + "read");
    EXPECT_EQ(difference(0, 3 * mib + 1, r, true).substr(0, name.size() + 5), name + "wrote");
    EXPECT_EQ(difference(0, -1, r, true).substr(0, name.size() + 5), name + "wrote");
    EXPECT_EQ(difference(-1, -1, r, false), "") << "through the page cache";
  }
  EXPECT_EQ(difference(0, 0, 0, true, false), "") << "a kernel that does not count";
  Observed observed;
  compare_disk({}, {true, DiskBytes{}}, peers, result, observed);
  EXPECT_FALSE(result.disk) << "nothing is in files";
}

// The default allowance is half of the ledger's peak, from 64 to 512 MiB.
TEST_F(Figures, the_excess_over_the_allowance_is_that_of_any_rank) {
  const auto compared = [&](std::int64_t ledger_mib, std::int64_t excess_mib, int bad_rank,
                            std::optional<double> allowance_mib = {}) {
    Deck deck = gpt2_deck(2);
    deck.memory.allowance_mib = allowance_mib;
    RunRecord record;
    record.rss_start = 70 * mib, record.rss_start_files = 30 * mib;
    LedgerSnapshot ledger;
    ledger.tiers[0].peak_bytes = (ledger_mib - 10) * mib, ledger.tiers[1].peak_bytes = 10 * mib;
    record.rss_peak = (30 + ledger_mib + (rank == bad_rank ? excess_mib : 0)) * mib;
    Observed observed;
    result = {};
    compare_system(deck, record, ledger, peers, result, observed);
    EXPECT_EQ(result.rss_excess, rank == bad_rank ? excess_mib * mib : 0);
    EXPECT_EQ(result.rss_peak_most, (30 + ledger_mib + excess_mib) * mib);
    return observed.excess;
  };
  for (int r = 0; r < ranks; ++r) {
    EXPECT_EQ(compared(100, 64, r), "");
    EXPECT_EQ(result.allowance, 64 * mib);
    EXPECT_EQ(compared(100, 65, r).substr(0, 7), "rank " + std::to_string(r) + ":");
    EXPECT_EQ(compared(300, 150, r), "");
    EXPECT_NE(compared(300, 151, r), "");
    EXPECT_EQ(compared(3000, 512, r), "");
    EXPECT_NE(compared(3000, 513, r), "");
    EXPECT_EQ(compared(3000, 20, r, 20), "");
    EXPECT_NE(compared(3000, 21, r, 20), "");
  }
}

// Memory outside the process counts; states for the replay and the buffers of emulated traffic are
// the program's own. Beside background traffic the allowance is the largest.
TEST_F(Figures, the_excess_counts_what_is_outside_and_no_buffers_of_the_program) {
  Deck deck = gpt2_deck(2);
  LedgerSnapshot ledger;
  ledger.tiers[0].peak_bytes = 300 * mib;
  RunRecord record;
  record.rss_start_files = 30 * mib, record.rss_peak = 1000 * mib;
  record.kept_bytes = 200 * mib, record.emulated.buffer_bytes = 100 * mib;
  record.outside = {50 * mib, 7 * mib};
  Observed observed;
  compare_system(deck, record, ledger, peers, result, observed);
  EXPECT_EQ(result.rss_excess, (1000 - 30 - 300 - 200 - 100 + 57) * mib);
  EXPECT_EQ(result.replay_copy, 200 * mib);
  EXPECT_EQ(describe_resident(result),
            "0 B at start, 1000 MiB at most, 200 MiB of it the states for the replay; 427 MiB "
            "beyond the ledger's peak (allowance 150 MiB)");
  EXPECT_EQ(result.allowance, 150 * mib);
  EXPECT_NE(observed.excess, "");
  deck.congestion.given = true;
  compare_system(deck, record, ledger, peers, result, observed);
  EXPECT_EQ(result.allowance, 512 * mib);
  EXPECT_EQ(observed.excess, "");
  record.rss_peak = 0;
  compare_system(deck, record, ledger, peers, result, observed);
  EXPECT_EQ(result.rss_excess, 0) << "never negative";
}

// One copy or one byte more or less is a difference, in each direction and on any rank.
TEST_F(Figures, copies_are_compared_on_every_rank) {
  RunRecord record = record_of({1, 1, 1, 1, 1}, 1);
  LinkVolume predicted{};
  for (const Direction d : all_values<Direction>) {
    predicted[d] = {4, 4000};
    record.link[d] = {.bytes = 4000, .busy_ns = 8 * ms, .exposed_ns = 2 * ms};
  }
  for (int r = -1; r < ranks; ++r)
    for (const Direction d : all_values<Direction>)
      for (const LinkTraffic& wrong : {LinkTraffic{5, 4000}, LinkTraffic{4, 3999}}) {
        LinkVolume carried = predicted;
        if (rank == r) carried[d] = wrong;
        Observed observed;
        compare_copies(gpt2_deck(2), predicted, carried, record, peers, result, observed);
        const std::string name = "rank " + std::to_string(r) + ": " + std::string(to_string(d));
        EXPECT_EQ(observed.copies_mismatch.substr(0, name.size()), r < 0 ? "" : name);
        EXPECT_NEAR(result.link[d].bytes_per_step, 1000, 1e-9);
        EXPECT_NEAR(result.link[d].busy_s, 2e-3, 1e-12);
        EXPECT_NEAR(result.link[d].exposed_s, 5e-4, 1e-12);
      }
}

}  // namespace
}  // namespace shardmark::test::figures_test
