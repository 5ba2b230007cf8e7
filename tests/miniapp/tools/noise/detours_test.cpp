// SPDX-License-Identifier: Apache-2.0
// Rules: detours of known number and length are found as such, those at regular intervals with
// their period and cost, those at random times without one, and ranks of different speed differ by
// as much as they do.
#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include <miniapp/tools/noise/detours.hpp>
#include <miniapp/tools/noise/noise.hpp>

namespace shardmark::test::detours_test {
namespace {

constexpr double quantum_s = 1e-3;

// Quanta one after the other; an interruption lengthens the quantum in which it begins.
std::vector<Quantum> quanta(double span_s, const std::vector<Detour>& interruptions) {
  std::vector<Quantum> all;
  std::size_t next = 0;
  for (double now = 0; now < span_s;) {
    Quantum q{now, quantum_s};
    for (; next < interruptions.size() && interruptions[next].at_s < now + quantum_s; ++next)
      q.seconds += interruptions[next].seconds;
    all.push_back(q);
    now += q.seconds;
  }
  return all;
}

std::vector<Detour> each(double period_s, double cost_s, double span_s, double first_s = 0) {
  std::vector<Detour> all;
  for (double at = first_s; at < span_s; at += period_s) all.push_back({at, cost_s});
  return all;
}

std::vector<Detour> at_random(double rate, double cost_s, double span_s, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<Detour> all;
  for (double at = 0; at < span_s;) {
    at += -std::log(std::generate_canonical<double, 53>(random)) / rate;
    all.push_back({at, cost_s});
  }
  return all;
}

std::vector<Detour> together(std::vector<Detour> a, const std::vector<Detour>& b) {
  a.insert(a.end(), b.begin(), b.end());
  std::sort(a.begin(), a.end(), [](const Detour& x, const Detour& y) { return x.at_s < y.at_s; });
  return a;
}

// What measure_noise makes of quanta.
std::vector<Period> periods_of(const std::vector<Quantum>& all) {
  const double undisturbed = undisturbed_quantum(all);
  std::vector<Detour> found;
  for (const Quantum& q : all)
    if (q.seconds - undisturbed > detour_from(undisturbed))
      found.push_back({q.start_s + 0.5 * q.seconds, q.seconds - undisturbed});
  return find_periods(found, all.back().start_s + all.back().seconds, quantum_s);
}

TEST(Detours, are_counted_with_their_length) {
  std::vector<Quantum> all;
  for (int i = 0; i < 10'000; ++i)
    all.push_back({i * quantum_s, i % 100 == 50 ? 3 * quantum_s : quantum_s});
  const double undisturbed = undisturbed_quantum(all);
  EXPECT_EQ(undisturbed, quantum_s);
  const NoiseFigures f = noise_figures(all, undisturbed);
  EXPECT_EQ(f.quanta, 10'000);
  EXPECT_EQ(f.detours, 100);
  EXPECT_NEAR(f.mean_detour_s(), 2 * quantum_s, 1e-12);
  EXPECT_NEAR(f.work_s, 10.2, 1e-9);
  EXPECT_NEAR(f.lost_s, 0.2, 1e-9);
  EXPECT_NEAR(f.lost_part(), 0.2 / 10.2, 1e-9);
  EXPECT_NEAR(f.detours_per_s(), 100 / 10.2, 1e-6);
  EXPECT_NEAR(f.work_s, f.base_s + f.lost_s, 1e-9);
  NoiseFigures sum = f;
  sum += f;
  EXPECT_EQ(sum.detours, 200);
  EXPECT_DOUBLE_EQ(sum.lost_part(), f.lost_part());
  EXPECT_DOUBLE_EQ(sum.undisturbed_s(), quantum_s);
}

TEST(Detours, are_not_what_is_below_one_percent) {
  EXPECT_EQ(detour_from(1e-3), 1e-5);
  EXPECT_EQ(detour_from(1e-5), 1e-6);
  std::vector<Quantum> all(1000, {0, quantum_s});
  all[7].seconds = 1.009 * quantum_s;
  all[8].seconds = 1.011 * quantum_s;
  EXPECT_EQ(noise_figures(all, quantum_s).detours, 1);
}

TEST(Detours, have_no_figures_without_quanta) {
  EXPECT_EQ(undisturbed_quantum({}), 0);
  const NoiseFigures f = noise_figures({}, 0);
  EXPECT_EQ(f.lost_part(), 0);
  EXPECT_EQ(f.mean_detour_s(), 0);
}

TEST(Periods, are_found_with_their_cost) {
  for (const double period : {0.01, 0.0437, 0.25}) {
    const auto found = periods_of(quanta(5, each(period, 200e-6, 5, 0.0033)));
    ASSERT_EQ(found.size(), 1u) << period;
    EXPECT_NEAR(found[0].period_s / period, 1, 2e-3) << period;
    EXPECT_NEAR(found[0].detour_s, 200e-6, 1e-9);
    EXPECT_NEAR(found[0].hit_part, 1, 0.06);
    EXPECT_NEAR(found[0].lost_part, 200e-6 / period, 0.08 * 200e-6 / period);
  }
}

TEST(Periods, of_a_few_quanta_are_found_once) {
  // Some come at the period, some a part of it later.
  std::mt19937_64 random(3);
  std::vector<Detour> late = each(0.004, 300e-6, 5);
  for (Detour& d : late) d.at_s += random() % 3 == 0 ? 0.0013 : 0;
  for (const auto& detours : {each(0.004, 50e-6, 5), late}) {
    const auto found = periods_of(quanta(5, detours));
    ASSERT_EQ(found.size(), 1u);
    EXPECT_NEAR(found[0].period_s, 0.004, 1e-5);
    EXPECT_GT(found[0].hit_part, 0.6);
    EXPECT_LE(found[0].hit_part, 1);
  }
}

TEST(Periods, are_found_among_others_and_among_random_ones) {
  const auto both = together(each(0.01, 50e-6, 5), each(0.137, 2e-3, 5, 0.05));
  auto found = periods_of(quanta(5, together(both, at_random(20, 1e-4, 5, 1))));
  ASSERT_EQ(found.size(), 2u);
  std::sort(found.begin(), found.end(),
            [](const Period& a, const Period& b) { return a.period_s < b.period_s; });
  EXPECT_NEAR(found[0].period_s, 0.01, 1e-5);
  EXPECT_NEAR(found[1].period_s, 0.137, 1e-3);
}

TEST(Periods, are_not_found_where_there_are_none) {
  for (unsigned seed = 1; seed <= 40; ++seed)
    EXPECT_TRUE(periods_of(quanta(3, at_random(seed * 5, 100e-6, 3, seed))).empty()) << seed;
  EXPECT_TRUE(periods_of(quanta(3, {})).empty());
  EXPECT_TRUE(find_periods({}, 1, quantum_s).empty());
}

TEST(Periods, are_not_made_of_clusters) {
  // Work of others comes and goes each few seconds: many interruptions, then none.
  std::vector<Detour> clusters;
  for (const double from : {0.4, 1.9, 2.2, 4.1})
    for (const Detour& d : at_random(150, 100e-6, 0.5, 7))
      clusters.push_back({from + d.at_s, d.seconds});
  std::sort(clusters.begin(), clusters.end(),
            [](const Detour& a, const Detour& b) { return a.at_s < b.at_s; });
  EXPECT_TRUE(periods_of(quanta(5, clusters)).empty());
}

TEST(RankSpread, is_the_difference_between_ranks) {
  EXPECT_EQ(rank_spread({{1, 2, 3}}), 0);
  EXPECT_EQ(rank_spread({{1, 2}, {1, 2}}), 0);
  // 9 and 11: sd sqrt(2), mean 10.
  EXPECT_NEAR(rank_spread({{9, 90}, {11, 110}}), std::sqrt(2.0) / 10, 1e-12);
}

TEST(NoiseAtScale, follows_from_the_delays) {
  Noise noise;
  noise.all.delays = {.values = {{0, 99'000}, {5 * quantum_s, 1'000}}};
  noise.all.figures = {.quanta = 100'000, .work_s = 105, .base_s = 100, .lost_s = 5};
  const NoiseAtScale s = noise_at_scale(noise, 64);
  EXPECT_EQ(s.ranks, 64);
  EXPECT_NEAR(s.delay_s, 5 * quantum_s * (1 - std::pow(0.99, 64)), 1e-12);
  EXPECT_FALSE(s.tail_s);
  EXPECT_NEAR(s.longer, 5 * (1 - std::pow(0.99, 64)), 1e-9);
  EXPECT_NEAR(s.beyond_seen, 64.0 / 100'064, 1e-12);
}

TEST(NoiseModel, is_what_a_machine_file_takes) {
  Noise noise;
  noise.all.delays = {.values = {{0, 990}, {1e-4, 10}}};
  noise.all.figures = {.quanta = 1000,
                       .work_s = 1.001,
                       .base_s = 1,
                       .lost_s = 0.001,
                       .detours = 10,
                       .detour_s = 0.001};
  noise.ranks.resize(2);
  noise.ranks[0].periods = {{0.1, 1e-4, 1, 1e-3}};
  noise.ranks[1].periods = {{0.1002, 1e-4, 1, 1e-3}, {0.01, 1e-5, 1, 1e-3}};
  noise.at_scale = {noise_at_scale(noise, 64), noise_at_scale(noise, 1024)};
  const NoiseModel m = noise_model(noise);
  EXPECT_EQ(m.quantum_s, quantum_s);
  EXPECT_NEAR(m.detour_s, 1e-4, 1e-12);
  ASSERT_EQ(m.delays.size(), 4u);  // one in 2, 10, 100, 1000
  EXPECT_EQ(m.delays[1].size, 10);
  EXPECT_GT(m.delays[0].seconds, 0);
  EXPECT_EQ(m.delays[3].seconds, 1e-4);
  ASSERT_EQ(m.slowest.size(), 2u);
  EXPECT_NEAR(m.slowest[1].seconds, 1e-4, 1e-7);
  ASSERT_EQ(m.periods.size(), 2u);  // ranks that see the same one are not listed twice
  EXPECT_EQ(m.periods[0].size, 0.01);
}

TEST(NoiseArguments, need_enough_quanta_and_not_too_many) {
  EXPECT_NO_THROW(require_quanta({}));
  const auto require = [](int seconds, int quantum_us) {
    NoiseArguments a;
    a.seconds = seconds, a.quantum_us = quantum_us;
    require_quanta(a);
  };
  EXPECT_NO_THROW(require(1, 5000));
  EXPECT_THROW(require(1, 5001), DeckError);
  EXPECT_THROW(require(3601, 1000), DeckError);
  EXPECT_THROW(require(3600, 10), DeckError);
}

}  // namespace
}  // namespace shardmark::test::detours_test
