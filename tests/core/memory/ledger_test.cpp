// SPDX-License-Identifier: Apache-2.0
// The ledger counts exact bytes by tier and category, remembers the composition and the place of a
// peak, and ignores allocations without one of our labels.
#include <numeric>
#include <optional>
#include <vector>

#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>

#include <core/error.hpp>
#include <core/memory/buffer.hpp>
#include <core/memory/ledger.hpp>

namespace shardmark::test::ledger_test {
namespace {

Slot slot(std::int64_t elems, Category category = Category::param, Tier tier = Tier::device,
          Dtype dtype = Dtype::fp32) {
  return {"a_name", tier, category, dtype, elems};
}
std::int64_t of(const CategoryBytes& bytes, Category c) {
  return bytes[c];
}
std::int64_t sum(const CategoryBytes& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

TEST(Ledger, measures_what_the_plan_says_for_every_size_and_dtype) {
  for (const Dtype dtype : {Dtype::fp32, Dtype::bf16, Dtype::fp64, Dtype::uint8})
    for (const std::int64_t elems : {0, 1, 15, 16, 17, 63, 64, 65, 1000, 100003}) {
      const Slot s = slot(elems, Category::grad, Tier::host, dtype);
      const Ledger ledger;
      const Buffer buffer(s);
      EXPECT_EQ(ledger.snapshot()[Tier::host].live_bytes, alloc_bytes(s))
          << elems << " elements of " << to_string(dtype);
      EXPECT_EQ(buffer.bytes(), alloc_bytes(s));
      EXPECT_EQ(ledger.snapshot()[Tier::device].live_bytes, 0);
    }
}

TEST(Ledger, keeps_tiers_and_categories_apart) {
  const Ledger ledger;
  const Buffer a(slot(16, Category::param, Tier::device));
  const Buffer b(slot(32, Category::momentum, Tier::device));
  const Buffer c(slot(64, Category::momentum, Tier::host));
  const auto now = ledger.snapshot();
  EXPECT_EQ(of(now[Tier::device].live, Category::param), 64);
  EXPECT_EQ(of(now[Tier::device].live, Category::momentum), 128);
  EXPECT_EQ(of(now[Tier::host].live, Category::momentum), 256);
  EXPECT_EQ(now[Tier::device].live_bytes, 192);
  EXPECT_EQ(now[Tier::host].live_bytes, 256);
  EXPECT_EQ(now[Tier::device].allocations, 2);
  EXPECT_EQ(now[Tier::host].allocations, 1);
}

TEST(Ledger, remembers_the_first_peak_and_its_categories) {
  Ledger ledger;
  const Buffer base(slot(16, Category::param));
  std::optional<Buffer> bucket;
  ledger.set_at("event 1");
  bucket.emplace(slot(160, Category::bucket));
  bucket.reset();
  ledger.set_at("event 2");
  {
    const Buffer equal(slot(160, Category::gathered));  // an equal total is no new peak
  }
  const Buffer later(slot(16, Category::gathered));
  const auto tier = ledger.snapshot()[Tier::device];
  EXPECT_EQ(tier.peak_bytes, 64 + 640);
  EXPECT_EQ(tier.peak_at, "event 1");
  EXPECT_EQ(of(tier.at_peak, Category::bucket), 640);
  EXPECT_EQ(of(tier.at_peak, Category::gathered), 0);
  EXPECT_EQ(sum(tier.at_peak), tier.peak_bytes);
  EXPECT_EQ(of(tier.category_peaks, Category::gathered), 640);  // its own peak was at event 2
  EXPECT_EQ(tier.live_bytes, 128);
}

TEST(Ledger, reset_peaks_restarts_from_what_is_live) {
  Ledger ledger;
  const Buffer kept(slot(16, Category::param));
  { const Buffer gone(slot(1600, Category::workspace)); }
  ledger.set_at("step 2");
  ledger.reset_peaks();
  const auto tier = ledger.snapshot()[Tier::device];
  EXPECT_EQ(tier.peak_bytes, 64);
  EXPECT_EQ(of(tier.at_peak, Category::param), 64);
  EXPECT_EQ(sum(tier.category_peaks), 64);
  EXPECT_EQ(tier.peak_at, "step 2");
}

TEST(Ledger, ignores_allocations_without_our_label) {
  const Ledger ledger;
  const Kokkos::View<double*> foreign("foreign", 1000);
  const Kokkos::View<double*> similar("shardmark::device::nothing::x", 1000);
  EXPECT_EQ(ledger.snapshot()[Tier::device].allocations, 0);
  EXPECT_EQ(ledger.snapshot()[Tier::device].peak_bytes, 0);
}

TEST(Ledger, counts_a_release_by_address_even_if_the_label_is_long) {
  const Ledger ledger;
  {
    Slot s = slot(16);
    s.name = std::string(500, 'n');
    const Buffer buffer(s);
    EXPECT_EQ(ledger.snapshot()[Tier::device].live_bytes, 64);
  }
  EXPECT_EQ(ledger.snapshot()[Tier::device].live_bytes, 0);
}

TEST(Ledger, ignores_the_release_of_what_was_allocated_before_it) {
  std::optional<Buffer> early(std::in_place, slot(16));
  const Ledger ledger;
  early.reset();
  EXPECT_EQ(ledger.snapshot()[Tier::device].live_bytes, 0);
}

TEST(Buffer, moves_its_memory_and_frees_it_once) {
  const Ledger ledger;
  {
    Buffer first(slot(16));
    std::byte* const where = first.data<std::byte>();
    Buffer second(std::move(first));
    EXPECT_EQ(second.data<std::byte>(), where);
    EXPECT_EQ(first.data<std::byte>(),
              nullptr);  // NOLINT: a moved-from buffer is empty by contract
    second = Buffer(slot(32));
    EXPECT_EQ(ledger.snapshot()[Tier::device].live_bytes, 128);
    std::vector<Buffer> several;
    several.push_back(std::move(second));
    EXPECT_EQ(ledger.snapshot()[Tier::device].live_bytes, 128);
  }
  EXPECT_EQ(ledger.snapshot()[Tier::device].live_bytes, 0);
  EXPECT_EQ(ledger.snapshot()[Tier::device].allocations, 2);
}

TEST(Buffer, is_aligned_to_cache_lines) {
  for (int i = 0; i < 20; ++i) {
    const Buffer buffer(slot(16 * i + 1));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data<std::byte>()) % 64, 0U);
  }
}

TEST(Buffer, names_the_label_when_the_allocation_fails) {
  const Ledger ledger;
  try {
    const Buffer buffer(slot(std::int64_t{1} << 58));
    FAIL() << "2^60 bytes were allocated";
  } catch (const MemoryError& e) {
    const std::string what = e.what();
    EXPECT_NE(what.find("shardmark::device::param::a_name"), std::string::npos) << what;
    EXPECT_NE(what.find(std::to_string(std::int64_t{1} << 60)), std::string::npos) << what;
    EXPECT_NE(what.find("memory.device_gib"), std::string::npos) << what;
  }
  EXPECT_EQ(ledger.snapshot()[Tier::device].live_bytes, 0);
}

}  // namespace
}  // namespace shardmark::test::ledger_test
