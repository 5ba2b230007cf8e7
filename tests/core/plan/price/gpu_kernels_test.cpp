// SPDX-License-Identifier: Apache-2.0
// Rules: products of a GPU that nobody measured take whole waves of tiles, so wide and deep ones
// reach more of the peak than narrow and shallow ones and none more than product_efficiency;
// attention and the kernels between products follow the switches of the software; the host's
// launches count only where the device would otherwise wait for them.
#include <gtest/gtest.h>

#include <core/plan/plan.hpp>
#include <core/plan/price/gpu_kernels.hpp>
#include <core/plan/price/price.hpp>

namespace shardmark::test::gpu_kernels_test {
namespace {

Machine gpu() {
  Machine m;
  DeviceModel& d = m.device;
  d.peak_flops[Dtype::bf16] = 300e12;
  d.product_efficiency = 0.8;
  d.multiprocessors = 100;
  d.product_fill_depth = 100;
  d.memory_bytes_per_s = 2e12;
  d.stream_efficiency = 0.8;
  d.softmax_depth = 32;
  d.attention_efficiency = 0.7;
  return m;
}

Product product(std::int64_t m, std::int64_t n, std::int64_t k) {
  return {.m = m, .n = n, .k = k, .type = Dtype::bf16, .c_type = Dtype::bf16};
}

double part_of_peak(const Product& p) {
  return p.flops() / tiled_product_s(gpu().device, p) / 300e12;
}

AttentionWork attention(bool backward = false) {
  constexpr double heads = 16, sequence = 2048;
  return {.heads = heads,
          .sequence = sequence,
          .head_dim = 128,
          .scores = heads * sequence * sequence / 2,
          .backward = backward,
          .dtype = Dtype::bf16};
}

TEST(TiledProduct, IsWholeWavesOfTiles) {
  // 100 tiles of 256 x 128 are one wave, which takes (k + fill) of the inner dimension.
  const Product one_wave = product(256 * 10, 128 * 10, 4096);
  const double wave_s = 2.0 * 256 * 128 * (4096 + 100) * 100 / (300e12 * 0.8);
  EXPECT_NEAR(tiled_product_s(gpu().device, one_wave), wave_s, 1e-12);
  // A little more does not fit, and costs far more than its share.
  const Product more = product(256 * 10 + 8, 128 * 10, 4096);
  EXPECT_GT(tiled_product_s(gpu().device, more), 1.05 * wave_s);
}

TEST(TiledProduct, ReachesMoreOfThePeakWhereItIsWiderAndDeeper) {
  double before = 0;
  for (const std::int64_t width : {256, 512, 1024, 2048, 4096, 8192, 16384}) {
    const double part = part_of_peak(product(8192, width, width));
    EXPECT_GT(part, before) << width;
    EXPECT_LE(part, 0.8) << width;
    before = part;
  }
  EXPECT_GT(before, 0.77);
}

TEST(TiledProduct, IsNoFasterThanItsOperandsMove) {
  const Product thin = product(1 << 16, 64, 64);
  const double bytes = 2.0 * ((1 << 16) * 64 + 64 * 64 + (1 << 16) * 64);
  EXPECT_GE(tiled_product_s(gpu().device, thin), bytes / (2e12 * 0.8));
}

TEST(TiledProduct, OfFp8IsFasterByItsPeakLessTheConversions) {
  Machine m = gpu();
  m.device.fp8_flops = 600e12;
  m.software.fp8_products = true;
  Product p = product(8192, 8192, 8192);
  const double half = tiled_product_s(m.device, p);
  const double conversions = 4.0 * 2 * 8192 * 8192 / (2e12 * 0.8);
  EXPECT_NEAR(software_product_s(m, p), half / 2 + conversions, 1e-12);
  p.in_head = true;
  EXPECT_EQ(software_product_s(m, p), half);
}

TEST(Attention, FollowsTheSoftware) {
  Machine m = gpu();
  m.device.portable_attention = 0.5;
  const double fused = attention_s(m, attention());
  EXPECT_NEAR(fused, 4 * attention().scores * (128 + 32) / (300e12 * 0.7), 1e-12);
  m.software.attention = AttentionKernel::portable_fused;
  EXPECT_NEAR(attention_s(m, attention()), 2 * fused, 1e-12);
  m.software.attention = AttentionKernel::first_fused;
  const double first = attention_s(m, attention());
  EXPECT_GT(first, 2 * fused);
  m.software.attention = AttentionKernel::unfused;
  // All scores, masked or not, go through memory several times.
  EXPECT_GT(attention_s(m, attention()), 9 * 2 * attention().scores / (2e12 * 0.8));
  EXPECT_GT(attention_s(m, attention(true)), attention_s(m, attention()));
  // One kernel for scaling, mask and softmax moves fewer bytes, and half of those that it reads.
  const double composed = attention_s(m, attention());
  m.software.attention = AttentionKernel::fused_softmax;
  EXPECT_NEAR(composed - attention_s(m, attention()), 9 * 2 * attention().scores / (2e12 * 0.8),
              1e-12);
}

TEST(Traffic, IsThatOfTheSingleOperationsWhereSoftwareIsEager) {
  Software software;
  const Stream norm{.kernel = "rms_norm_forward"}, loss{.kernel = "cross_entropy"};
  EXPECT_EQ(traffic_of(software, norm), 1);
  software.eager = true;
  software.eager_traffic = 1;
  EXPECT_DOUBLE_EQ(traffic_of(software, norm), 9);
  EXPECT_DOUBLE_EQ(traffic_of(software, loss), 6);
  EXPECT_EQ(launches_of(software, norm), 6);
  software.native_norms = true;
  EXPECT_EQ(traffic_of(software, norm), 1);
  EXPECT_EQ(launches_of(software, norm), 1);
  EXPECT_DOUBLE_EQ(traffic_of(software, loss), 6);
  // Each operation of a composed loss passes over fp32 logits.
  const double launches = launches_of(software, loss);
  software.composed_loss = true;
  EXPECT_DOUBLE_EQ(traffic_of(software, loss), 52.0 / 6);
  EXPECT_GT(launches_of(software, loss), launches);
}

TEST(Accumulation, IsAKernelOfItsOwnWhereSoftwareIsEager) {
  Machine m = gpu();
  m.device.launch_s = 4e-6;
  Product gradient = product(1024, 1024, 8192);
  gradient.transpose_a = true;
  const auto seconds = [&] { return EventTimes(m, 1).product(gradient).total(); };
  const double fused = seconds();
  EXPECT_EQ(launches_of(m.software, gradient), 1);
  m.software.eager = true;
  EXPECT_DOUBLE_EQ(seconds(), fused);  // the first micro-batch has nothing to add to
  gradient.accumulate = true;
  EXPECT_EQ(launches_of(m.software, gradient), 2);
  EXPECT_NEAR(seconds() - fused, 3 * 2.0 * 1024 * 1024 / (2e12 * 0.8) + 4e-6, 1e-10);
}

TEST(Launches, TakeTimeOfTheDeviceBesideTheirWork) {
  Machine m = gpu();
  const Stream s{.kernel = "residual", .elems = 1e6, .bytes = 6e6, .launches = 2};
  const double work = EventTimes(m, 1).stream(s).total();
  m.device.launch_s = 4e-6;
  EXPECT_NEAR(EventTimes(m, 1).stream(s).total() - work, 8e-6, 1e-12);
}

TEST(Launching, IsOfTheKernelsThatEagerSoftwareHas) {
  Machine m = gpu();
  Work work;
  work.products.push_back(product(64, 64, 64));
  work.products.back().count = 3;
  work.streams.push_back({.kernel = "residual", .launches = 2});
  work.attention = attention();
  EXPECT_EQ(EventTimes(m, 1).launching(work), 0);
  m.software.eager = true;
  m.software.eager_launch_s = 1e-3;
  EXPECT_DOUBLE_EQ(EventTimes(m, 1).launching(work), 6e-3);
  m.software.attention = AttentionKernel::unfused;
  EXPECT_DOUBLE_EQ(EventTimes(m, 1).launching(work), 12e-3);
}

// The step of a small decoder on one rank whose kernels are launched in `launch_s` each.
double step_with(double launch_s, bool eager, bool synchronizes = false) {
  Deck deck;
  deck.model.layers = 2;
  deck.model.hidden = 64;
  deck.model.heads = 2;
  deck.model.sequence = 64;
  deck.model.vocab = 256;
  deck.run.schedule = Schedule::paper;
  Machine m = gpu();
  m.software.eager = eager;
  m.software.eager_launch_s = launch_s;
  m.software.synchronizes = synchronizes;
  return price(build_program(deck, Batch{4, 2, 2}, 1, 0, Profile{}), m).step_s;
}

TEST(Launching, CountsWhereTheDeviceWouldWaitForIt) {
  const double device_s = step_with(1e-12, true);
  EXPECT_DOUBLE_EQ(step_with(1e-12, true), step_with(1e-11, true));
  // With slow launches the step grows by as much as each launch does, and the device hides in it.
  const double slow = step_with(1e-3, true), slower = step_with(2e-3, true);
  EXPECT_GT(slow, 10 * device_s);
  EXPECT_NEAR(slower / slow, 2, 0.1);
  EXPECT_EQ(step_with(1e-3, false), step_with(2e-3, false));
}

TEST(Launching, BeginsAnewWhereTheHostWaitsForTheDevice) {
  const double device_s = step_with(1e-12, true);
  // Neither a host that is far ahead nor one that is far behind notices it.
  EXPECT_DOUBLE_EQ(step_with(1e-12, true, true), device_s);
  EXPECT_NEAR(step_with(1e-3, true, true) / step_with(1e-3, true), 1, 0.01);
  // In between, what one pass of the host is ahead does not help the next one.
  double most = 1;
  for (double launch_s = 1e-8; launch_s < 1e-4; launch_s *= 1.5)
    most = std::max(most, step_with(launch_s, true, true) / step_with(launch_s, true));
  EXPECT_GT(most, 1.02);
}

}  // namespace
}  // namespace shardmark::test::gpu_kernels_test
