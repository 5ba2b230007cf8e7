// SPDX-License-Identifier: Apache-2.0
// Rules for copies between host and device on a lane of their own that are done as late as the
// order edges allow: training is the same bit for bit, the copies are those that were predicted,
// and the host waits for copies only at the end of a segment.
#include <cstring>

#include <gtest/gtest.h>

#include <tests/support/training.hpp>

namespace shardmark::test::late_copies_test {
namespace {

struct Seen {
  std::int64_t started = 0, held = 0,
               late = 0;  // late: still in flight when a later one was started
};

// Copies only when the data is required.
class LateLane : public CopyLane {
 public:
  explicit LateLane(Seen& seen) : seen_(seen) {}
  Number start(Direction direction, std::int64_t bytes, void* to, const void* from) override {
    if (copied_ < open_.size()) ++seen_.late;
    ++seen_.started;
    open_.push_back({direction, bytes, to, from});
    return finished_ + open_.size();
  }
  void hold_compute(Number copy) override {
    ++seen_.held;
    if (copy > finished_) copy_until(copy - finished_);
  }
  std::vector<Done> finish() override {
    copy_until(open_.size());
    std::vector<Done> done;
    const auto all = static_cast<std::int64_t>(open_.size());
    for (std::int64_t i = 0; i < all; ++i) {
      const Open& o = open_[static_cast<std::size_t>(i)];
      done.push_back({o.direction, o.bytes, 10 * (all - i), 10 * (all - i) - 5, 3});
    }
    finished_ += open_.size();
    open_.clear();
    copied_ = 0;
    return done;
  }

 private:
  struct Open {
    Direction direction;
    std::int64_t bytes;
    void* to;
    const void* from;
  };
  void copy_until(std::size_t end) {
    for (; copied_ < end; ++copied_)
      std::memcpy(open_[copied_].to, open_[copied_].from,
                  static_cast<std::size_t>(open_[copied_].bytes));
  }

  Seen& seen_;
  std::vector<Open> open_;
  std::size_t copied_ = 0;
  Number finished_ = 0;
};

Deck offloading_deck(int stage, MemoryMode memory_mode) {
  Deck d = small_deck(stage, 4 * world(), 2);
  d.run.schedule = Schedule::deepspeed;
  d.run.reductions = Reductions::ordered;
  d.run.memory_mode = memory_mode;
  d.zero.offload_optimizer.enabled = true;
  d.zero.offload_param.enabled = stage == 3;
  set_precision(d, Dtype::bf16, Dtype::fp32);
  return d;
}

struct Ran {
  std::vector<double> losses, norms;
  StateHashes hashes;
  LinkVolume carried;
  LinkTimesByDirection times;
  std::vector<TracedCopy> copies;  // of the last step
};

Ran run_of(const Deck& deck, std::unique_ptr<CopyLane> lane) {
  Training t(deck, MPI_COMM_WORLD);
  t.executor().copies_on(std::move(lane));
  t.init();
  StepTrace trace;
  for (int step = 0; step < 4; ++step) {
    if (step == 3) t.executor().trace(&trace);
    t.step();
  }
  const Executor& e = t.executor();
  return {t.losses, t.norms, t.hashes(), e.carried(), e.link_times(), trace.copies};
}

TEST(LateCopies, ChangeNoBitAndAreCountedAsThoseThatAreMadeAtOnce) {
  for (int stage : {1, 2, 3}) {
    SCOPED_TRACE(stage);
    const Deck deck = offloading_deck(stage, MemoryMode::pooled);
    Seen seen;
    const Ran at_once = run_of(deck, nullptr),
              late = run_of(deck, std::make_unique<LateLane>(seen));
    EXPECT_EQ(late.losses, at_once.losses);
    EXPECT_EQ(late.norms, at_once.norms);
    EXPECT_EQ(late.hashes, at_once.hashes);
    EXPECT_EQ(late.carried, at_once.carried);
    EXPECT_GT(seen.started, 0);
    EXPECT_GT(seen.held, 0);
    EXPECT_GT(seen.late, 0) << "or all were made at once here too";
    ASSERT_EQ(late.copies.size(), at_once.copies.size());
    for (std::size_t i = 0; i < late.copies.size(); ++i) {
      EXPECT_EQ(late.copies[i].event, at_once.copies[i].event);
      EXPECT_EQ(late.copies[i].end_ns - late.copies[i].begin_ns, 5);
    }
    for (const Direction d : all_values<Direction>) {
      EXPECT_EQ(late.times[d].copies, late.carried[d].copies);
      EXPECT_EQ(late.times[d].bytes, late.carried[d].bytes);
      EXPECT_EQ(late.times[d].busy_ns, 5 * late.carried[d].copies);
      EXPECT_EQ(late.times[d].exposed_ns, 3 * late.carried[d].copies);
    }
  }
}

TEST(LateCopies, AreNotMadeWhereMemoryIsFreedAtOnce) {
  Seen seen;
  run_of(offloading_deck(3, MemoryMode::strict), std::make_unique<LateLane>(seen));
  EXPECT_EQ(seen.started, 0);
}

}  // namespace
}  // namespace shardmark::test::late_copies_test
