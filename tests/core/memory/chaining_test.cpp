// SPDX-License-Identifier: Apache-2.0
// The ledger beside other Kokkos tools: it calls and later restores the callbacks that it found, a
// tool that registers later keeps working, and only one ledger may exist.
#include <memory>

#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>

#include <core/error.hpp>
#include <core/memory/buffer.hpp>
#include <core/memory/ledger.hpp>

namespace shardmark::test::chaining_test {
namespace {

namespace tools = Kokkos::Tools::Experimental;
using Kokkos::Tools::SpaceHandle;

// A second tool. Callbacks have no user data, so the tool counts in static members.
struct OtherTool {
  static inline int allocated = 0, freed = 0;
  static inline Kokkos::Tools::allocateDataFunction next = nullptr;
  static void on_allocate(SpaceHandle space, const char* label, const void* p, std::uint64_t n) {
    ++allocated;
    if (next != nullptr) next(space, label, p, n);
  }
  static void on_free(SpaceHandle, const char*, const void*, std::uint64_t) { ++freed; }
};

class LedgerChaining : public ::testing::Test {
 protected:
  void SetUp() override {
    before_ = tools::get_callbacks();
    OtherTool::allocated = OtherTool::freed = 0;
    OtherTool::next = nullptr;
  }
  void TearDown() override {
    tools::set_allocate_data_callback(before_.allocate_data);
    tools::set_deallocate_data_callback(before_.deallocate_data);
  }
  static void use_memory() {
    const Buffer buffer({"x", Tier::device, Category::param, Dtype::fp32, 16});
  }

 private:
  Kokkos::Tools::Experimental::EventSet before_;
};

TEST_F(LedgerChaining, an_earlier_tool_is_called_and_restored) {
  tools::set_allocate_data_callback(OtherTool::on_allocate);
  tools::set_deallocate_data_callback(OtherTool::on_free);
  {
    const Ledger ledger;
    use_memory();
    EXPECT_EQ(ledger.snapshot()[Tier::device].allocations, 1);
    EXPECT_EQ(OtherTool::allocated, 1);
    EXPECT_EQ(OtherTool::freed, 1);
  }
  EXPECT_EQ(tools::get_callbacks().allocate_data, &OtherTool::on_allocate);
  EXPECT_EQ(tools::get_callbacks().deallocate_data, &OtherTool::on_free);
  use_memory();
  EXPECT_EQ(OtherTool::allocated, 2);
}

TEST_F(LedgerChaining, without_an_earlier_tool_no_callback_remains) {
  { const Ledger ledger; }
  EXPECT_EQ(tools::get_callbacks().allocate_data, nullptr);
  EXPECT_EQ(tools::get_callbacks().deallocate_data, nullptr);
}

TEST_F(LedgerChaining, a_second_ledger_is_refused_and_the_first_keeps_listening) {
  const Ledger first;
  EXPECT_THROW(Ledger(), MemoryError);
  use_memory();
  EXPECT_EQ(first.snapshot()[Tier::device].allocations, 1);
}

TEST_F(LedgerChaining, a_later_tool_that_calls_our_callbacks_outlives_the_ledger) {
  auto ledger = std::make_unique<Ledger>();
  const auto ours = tools::get_callbacks();
  OtherTool::next = ours.allocate_data;
  tools::set_allocate_data_callback(OtherTool::on_allocate);
  use_memory();
  EXPECT_EQ(ledger->snapshot()[Tier::device].allocations, 1);

  ledger.reset();
  EXPECT_EQ(tools::get_callbacks().allocate_data, &OtherTool::on_allocate);
  use_memory();
  EXPECT_EQ(OtherTool::allocated, 2);

  {
    const Ledger next;  // uses the callbacks that are still in the chain and adds none
    use_memory();
    EXPECT_EQ(next.snapshot()[Tier::device].allocations, 1);
    EXPECT_EQ(next.snapshot()[Tier::device].live_bytes, 0);
    EXPECT_EQ(OtherTool::allocated, 3);
    // The later tool leaves the chain, so that the ledger can remove its own callbacks.
    tools::set_allocate_data_callback(ours.allocate_data);
  }
  EXPECT_EQ(tools::get_callbacks().allocate_data, nullptr);
}

}  // namespace
}  // namespace shardmark::test::chaining_test
