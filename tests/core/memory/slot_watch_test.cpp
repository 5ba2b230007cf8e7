// SPDX-License-Identifier: Apache-2.0
// Rules: a watch reports a slot that shares memory with another one, that is written beyond its
// end, or that is not written to its end although the plan says so, and nothing else.
#include <algorithm>
#include <array>
#include <utility>

#include <gtest/gtest.h>

#include <core/memory/slot_watch.hpp>

namespace shardmark::test::slot_watch_test {
namespace {

constexpr std::int64_t elems = 100;  // 400 bytes; 512 belong to the slot
constexpr std::size_t room = 512;

// A program with two slots, of which event 0 writes the first `written` elements.
struct OneWrite {
  explicit OneWrite(std::int64_t written, Category category = Category::grad) {
    for (const char* name : {"a", "b"})
      p.slots.push_back({name, Tier::device, category, Dtype::fp32, elems});
    p.groups = {{"world", {}}};
    p.operands = {{1, false, true, 0, elems}, {0, true, false, 0, written}};
    event.operands = {0, 2};
  }
  std::span<std::byte> memory(std::size_t at = 0) { return {bytes.data() + at, room}; }
  float* values() { return reinterpret_cast<float*>(bytes.data()); }

  Program p;
  Event event;
  alignas(256) std::array<std::byte, 2 * room> bytes{};
};

// Uses slot a once; `use` is what the computation does to the memory.
template<class Use>
SlotUse used(OneWrite& w, Use use) {
  SlotWatch watch(w.p);
  watch.acquired(0, w.memory());
  watch.writes(w.event);
  use();
  watch.released(0);
  return watch.finish();
}

TEST(SlotWatch, TakesWhatIsWrittenToTheEnd) {
  OneWrite w(elems);
  const SlotUse use = used(w, [&] { std::fill_n(w.values(), elems, 0.0F); });
  EXPECT_EQ(use.wrong, "");
  EXPECT_EQ(use.to_the_end, 1);
}

TEST(SlotWatch, ReportsAnEndThatIsNotWritten) {
  OneWrite w(elems);
  const SlotUse use = used(w, [&] { std::fill_n(w.values(), elems - 1, 0.0F); });
  EXPECT_EQ(use.wrong,
            "the memory of a (device grad, 400 bytes) was not written up to its end, although "
            "the plan writes it completely");
  EXPECT_EQ(use.to_the_end, 0);
}

// They hold several arrays, each of whole cache lines.
TEST(SlotWatch, TakesActivationsThatAreWrittenUpToTheirLastLine) {
  for (const auto& [written, right] : {std::pair{elems - 15, true}, std::pair{elems - 16, false}}) {
    OneWrite w(elems, Category::activation);
    const SlotUse use = used(w, [&] { std::fill_n(w.values(), written, 0.0F); });
    EXPECT_EQ(use.wrong.empty(), right) << use.wrong;
  }
}

// Quantized elements have any value, also that of the mark.
TEST(SlotWatch, TakesQuantizedElementsOfMinusOne) {
  for (const auto& [written, right] : {std::pair{elems, true}, std::pair{elems - 16, false}}) {
    OneWrite w(elems);
    w.p.slots[0].dtype = Dtype::int8;
    const SlotUse use = used(w, [&] {
      std::fill_n(w.bytes.data(), written, std::byte{0});
      if (right) std::fill_n(w.bytes.data() + elems - 8, 8, std::byte{0xFF});
    });
    EXPECT_EQ(use.wrong.empty(), right) << use.wrong;
  }
}

TEST(SlotWatch, AsksOnlyForWhatThePlanWrites) {
  OneWrite shorter(elems - 1), scratch(elems, Category::workspace);
  for (OneWrite* w : {&shorter, &scratch}) {
    const SlotUse use = used(*w, [] {});
    EXPECT_EQ(use.wrong, "");
    EXPECT_EQ(use.to_the_end, 0);
  }
  OneWrite reduced(elems);
  reduced.event.op = Op::reduce;
  reduced.event.root = 1;
  EXPECT_EQ(used(reduced, [] {}).wrong, "") << "only the root receives";
  reduced.event.root = 0;
  EXPECT_NE(used(reduced, [] {}).wrong, "");
}

TEST(SlotWatch, ReportsEveryByteBehindTheEnd) {
  for (const std::size_t at : {std::size_t{400}, std::size_t{401}, room - 1}) {
    OneWrite w(elems);
    const SlotUse use = used(w, [&] {
      std::fill_n(w.values(), elems, 0.0F);
      w.bytes[at] = std::byte{0};
    });
    EXPECT_EQ(use.wrong, "the memory of a (device grad, 400 bytes) was written beyond its end")
        << at;
  }
}

TEST(SlotWatch, LooksAtSlotsThatStayAlive) {
  OneWrite w(elems);
  SlotWatch watch(w.p);
  watch.acquired(0, w.memory());
  w.bytes[room - 1] = std::byte{0};
  EXPECT_NE(watch.finish().wrong, "");
}

TEST(SlotWatch, ReportsSharedMemory) {
  for (const std::size_t at : {std::size_t{0}, std::size_t{256}, room}) {
    for (const bool upwards : {false, true}) {
      OneWrite w(0);
      SlotWatch watch(w.p);
      watch.acquired(0, w.memory(upwards ? 0 : at));
      watch.acquired(1, w.memory(upwards ? at : 0));
      const bool apart = at == room;
      EXPECT_EQ(watch.finish().wrong.find("shares memory with a") == std::string::npos, apart)
          << at << ' ' << upwards;
    }
  }
}

// A slot that begins in the memory of a slot that was released shares nothing.
TEST(SlotWatch, ForgetsWhatIsReleased) {
  OneWrite w(0);
  SlotWatch watch(w.p);
  watch.acquired(0, w.memory());
  watch.released(0);
  watch.acquired(1, w.memory(256));
  EXPECT_EQ(watch.finish().wrong, "");
}

}  // namespace
}  // namespace shardmark::test::slot_watch_test
