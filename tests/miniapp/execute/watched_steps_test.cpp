// SPDX-License-Identifier: Apache-2.0
// Rules: programs of all schedules and stages use their slots as planned, which a watch confirms
// without changing a bit of what they compute; a computation that writes beyond its slot is
// reported.
#include <set>

#include <gtest/gtest.h>

#include <tests/support/training.hpp>

namespace shardmark::test::watched_steps_test {
namespace {

Deck deck_of(Schedule schedule, int stage, MemoryMode mode) {
  Deck deck = small_deck(stage, 4 * world(), 2);
  deck.run.schedule = schedule;
  deck.run.memory_mode = mode;
  return deck;
}

SlotUse watched(Training& t) {
  t.executor().watch_slots();
  t.init();
  for (int s = 0; s < 3; ++s) t.step();
  return t.executor().end_watch();
}

TEST(WatchedSteps, UseTheirSlotsAsPlanned) {
  if (!device_is_host) GTEST_SKIP() << "the memory of a device is not watched";
  for (const Schedule schedule : {Schedule::deepspeed, Schedule::paper})
    for (const int stage : {0, 1, 2, 3})
      for (const MemoryMode mode : {MemoryMode::pooled, MemoryMode::strict}) {
        Training t(deck_of(schedule, stage, mode), MPI_COMM_WORLD);
        const SlotUse use = watched(t);
        EXPECT_EQ(use.wrong, "") << "stage " << stage;
        std::set<int> states;
        for (const StatePiece& piece : t.program().states) states.insert(piece.slot);
        EXPECT_GT(use.to_the_end, static_cast<std::int64_t>(states.size())) << "stage " << stage;
      }
}

// What the steps compute does not depend on the watch.
TEST(WatchedSteps, GiveTheSameBits) {
  for (const int stage : {0, 1, 2, 3}) {
    const auto outcome = [&](bool watches) {
      Training t(deck_of(Schedule::deepspeed, stage, MemoryMode::pooled), MPI_COMM_WORLD);
      if (watches) t.executor().watch_slots();
      t.init();
      for (int s = 0; s < 3; ++s) t.step();
      return Outcome{t.losses, t.norms, t.hashes()};
    };
    EXPECT_EQ(outcome(true), outcome(false)) << "stage " << stage;
  }
}

// Writes a byte behind the loss, whose 8 bytes are followed by unused ones.
class Overrun : public Model {
 public:
  explicit Overrun(std::unique_ptr<Model> inner) : inner_(std::move(inner)) {}
  void run(const Program& program, const Event& event, std::span<const Bound> ops,
           const StepValues& values) override {
    inner_->run(program, event, ops, values);
    const Operand* operand = program.operands.data() + event.operands.first;
    for (std::size_t i = 0; i < ops.size(); ++i)
      if (program.slots[operand[i].slot].name == "loss") ops[i].as<std::byte>()[8] = std::byte{0};
  }

 private:
  std::unique_ptr<Model> inner_;
};

TEST(WatchedSteps, ReportAWriteBeyondTheEnd) {
  if (!device_is_host) GTEST_SKIP() << "the memory of a device is not watched";
  for (const int stage : {0, 1, 2, 3}) {
    Training t(
        deck_of(Schedule::deepspeed, stage, MemoryMode::pooled), MPI_COMM_WORLD, {},
        [](std::unique_ptr<Model> model) { return std::make_unique<Overrun>(std::move(model)); });
    EXPECT_NE(watched(t).wrong.find("the memory of loss"), std::string::npos) << stage;
  }
}

}  // namespace
}  // namespace shardmark::test::watched_steps_test
