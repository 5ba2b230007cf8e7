// SPDX-License-Identifier: Apache-2.0
// The lane of copies of a GPU, on the stand-in. A copy comes after the work that the compute stream
// had been given when the copy was started; work that the compute stream is given after
// hold_compute comes after the copy; the host waits only in finish.
#include <gtest/gtest.h>

#include <comm/nccl/nccl_stream.hpp>
#include <miniapp/execute/copy_lane.hpp>
#include <tests/comm/nccl/fake_device.hpp>

namespace shardmark::test::copy_lane_test {
namespace {

class NcclCopyLane : public ::testing::Test {
 protected:
  NcclCopyLane() : lane(make_copy_lane(compute.get())) {}
  CopyLane::Number copy(Direction direction, int& to, const int& from) {
    return lane->start(direction, sizeof(int), &to, &from);
  }
  void later(int& to, const int& from) {
    enqueue(compute.get(), [&to, &from] { return to = from, true; });
  }

  DeviceStream compute;
  std::unique_ptr<CopyLane> lane;
};

TEST_F(NcclCopyLane, a_copy_comes_after_what_was_launched_before_it_and_not_after_what_came_later) {
  int made = 0, down = 0;
  const int seven = 7;
  bool open = false, never = false;
  enqueue(compute.get(), [&] { return open; });
  later(made, seven);
  copy(Direction::device_to_host, down, made);
  enqueue(compute.get(), [&] { return never; });
  pump();
  EXPECT_EQ(down, 0);
  open = true;
  pump();
  EXPECT_EQ(down, 7);
  never = true;
  lane->finish();
}

TEST_F(NcclCopyLane, compute_goes_on_beside_a_copy_until_it_is_held) {
  const int up = 5, one = 1;
  int device = 0, beside = 0, seen = 0;
  bool open = false;
  enqueue(compute.get(), [&] { return open; });
  const auto first = copy(Direction::host_to_device, device, up);
  later(beside, one);
  lane->hold_compute(first);
  later(seen, device);
  pump();
  EXPECT_EQ(beside, 0);
  open = true;
  pump();
  EXPECT_EQ(beside, 1);
  EXPECT_EQ(seen, 5);
}

TEST_F(NcclCopyLane, finish_tells_all_in_order_with_their_times) {
  int a = 0, b = 0;
  const int x = 3, y = 4;
  const auto first = copy(Direction::host_to_device, a, x);
  copy(Direction::device_to_host, b, y);
  lane->hold_compute(first);
  const auto done = lane->finish();
  EXPECT_EQ(a, 3);
  EXPECT_EQ(b, 4);
  ASSERT_EQ(done.size(), 2U);
  EXPECT_EQ(done[0].direction, Direction::host_to_device);
  EXPECT_EQ(done[1].direction, Direction::device_to_host);
  EXPECT_EQ(done[0].bytes, 4);
  for (const CopyLane::Done& d : done) EXPECT_GT(d.began_ns_ago, d.ended_ns_ago);
  EXPECT_GE(done[0].ended_ns_ago, done[1].began_ns_ago) << "one after the other";
  EXPECT_EQ(done[1].ended_ns_ago, 0);
  EXPECT_GT(done[0].exposed_ns, 0);
  EXPECT_EQ(done[1].exposed_ns, 0) << "nobody waited for it";
  EXPECT_TRUE(lane->finish().empty());
}

TEST_F(NcclCopyLane, numbers_go_on_and_what_is_finished_holds_nobody) {
  int a = 0;
  const int x = 3;
  const auto first = copy(Direction::host_to_device, a, x);
  lane->finish();
  const int before = fake().events;
  lane->hold_compute(first);
  EXPECT_EQ(copy(Direction::host_to_device, a, x), first + 1);
  EXPECT_EQ(fake().events, before) << "events are used again";
  lane->finish();
}

}  // namespace
}  // namespace shardmark::test::copy_lane_test
