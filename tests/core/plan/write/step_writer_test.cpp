// SPDX-License-Identifier: Apache-2.0
// Rule: the walk writes each segment once for every state in which it can begin, and adds steps
// until a state comes back.
#include <functional>

#include <gtest/gtest.h>

#include <core/plan/model/model_shape.hpp>
#include <core/plan/write/step_writer.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::test::step_writer_test {
namespace {

// Notes in `calls` what the walk asks for.
class ToySchedule : public StepSchedule {
 public:
  explicit ToySchedule(Program& program) : c_(program, Profile{}) {}
  ScheduleContext& context() override { return c_; }
  Gradients between_micros() const override { return Gradients::accumulated; }
  bool may_skip() const override { return skips; }
  int special_steps() const override { return special; }
  int special_micros() const override { return early; }
  bool repeats_skipped() const override { return repeats; }
  bool skips_leave_slots() const override { return leaves; }
  bool reduces_in_step() const override { return late; }

  void init() override { calls += "init "; }
  void forward(const MicroBatch& micro) override {
    calls += "f" + std::to_string(micro.index) + " ";
  }
  void backward(const MicroBatch&) override {}
  void reduce_step() override { calls += "reduce "; }
  void boundary() override { calls += "boundary "; }
  void update() override { calls += "update "; }
  void skip() override {
    calls += "skip ";
    if (leaves && !w_.alive(left_)) w_.acquire(left_);
  }

  bool skips = false, repeats = false, leaves = false, late = false;
  int special = 0, early = 1;
  std::string calls;

 private:
  ScheduleContext c_;
  PlanWriter& w_ = c_.writer;
  int left_ = w_.slot("left", Category::grad, Dtype::fp32, 1);
};

Program empty_program(std::int64_t accumulation) {
  Program p;
  p.trains = false;
  p.batch = batch(1, accumulation);
  return p;
}

std::string names(const Program& p) {
  std::string all;
  for (const Segment& s : p.segments) all += s.name + " ";
  return all;
}

std::string micros(const Program& p, int step) {
  std::string all;
  for (const SegmentRun& run : p.steps[static_cast<std::size_t>(step)].micros.runs())
    all += p.segments[static_cast<std::size_t>(run.segments.front())].name + "x" +
           std::to_string(run.times) + " ";
  return all;
}

TEST(StepWalk, WritesEachKindOfMicroBatchOnce) {
  Program p = empty_program(1000);
  ToySchedule schedule(p);
  write_steps(schedule);
  EXPECT_EQ(schedule.calls, "init f0 f1 f999 reduce boundary update ");
  EXPECT_EQ(micros(p, 0), "micro_firstx1 micro_middlex998 micro_lastx1 ");
  EXPECT_EQ(p.steps.size(), 1u);
  EXPECT_EQ(p.steps[0].skip, -1);
}

TEST(StepWalk, OneMicroBatchIsTheFirstAndTheLast) {
  Program p = empty_program(1);
  ToySchedule schedule(p);
  write_steps(schedule);
  EXPECT_EQ(names(p), "init micro_only boundary update ");
}

TEST(StepWalk, SpecialStepsComeBeforeTheOneThatRepeats) {
  Program p = empty_program(5);
  ToySchedule schedule(p);
  schedule.special = 1, schedule.early = 3;
  write_steps(schedule);
  ASSERT_EQ(p.steps.size(), 2u);
  EXPECT_EQ(micros(p, 0),
            "micro_first.step0x1 micro_1.step0x1 micro_2.step0x1 micro_middle.step0x1 "
            "micro_last.step0x1 ");
  EXPECT_EQ(micros(p, 1), "micro_firstx1 micro_middlex3 micro_lastx1 ");
  EXPECT_EQ(p.steps[0].after_update, 1);
  EXPECT_EQ(p.steps[1].after_update, 1);
}

TEST(StepWalk, ASkippedStepFollowsFromTheSameBoundaryAsTheUpdate) {
  Program p = empty_program(1);
  ToySchedule schedule(p);
  schedule.skips = schedule.repeats = true;
  schedule.special = 1;
  write_steps(schedule);
  EXPECT_EQ(names(p),
            "init micro_only.step0 boundary.step0 update.step0 skip.step0 micro_only boundary "
            "update skip ");
  EXPECT_EQ(p.steps[0].after_skip, 0);
  EXPECT_EQ(p.steps[0].after_update, 1);
  EXPECT_EQ(p.steps[1].after_skip, 1);
}

TEST(StepWalk, SlotsThatASkipLeavesMakeTheNextStepAnotherOne) {
  Program p = empty_program(1);
  ToySchedule schedule(p);
  schedule.skips = schedule.leaves = true;
  write_steps(schedule);
  ASSERT_EQ(p.steps.size(), 2u);
  EXPECT_EQ(p.steps[0].after_skip, 1);
  EXPECT_EQ(p.steps[1].after_skip, 1);
  const Segment& after = *p.find("micro_only.after_skip");
  EXPECT_EQ(after.entry.alive, p.find("skip")->exit.alive);
  EXPECT_TRUE(p.find("micro_only")->entry.alive.empty());
}

TEST(StepWalk, GradientsStayUnreducedUntilAStepThatReducesThem) {
  Program p = empty_program(2);
  ToySchedule schedule(p);
  schedule.late = true;
  write_steps(schedule);
  EXPECT_EQ(p.find("micro_last")->exit.gradients, Gradients::accumulated);
  EXPECT_EQ(p.find("boundary")->exit.gradients, Gradients::reduced);
  EXPECT_EQ(schedule.calls, "init f0 f1 reduce boundary update ");
}

TEST(StepWalk, StartUpAloneWritesNoStep) {
  Program p = empty_program(1);
  p.extent = Extent::start_up;
  ToySchedule schedule(p);
  write_steps(schedule);
  EXPECT_EQ(names(p), "init ");
  EXPECT_TRUE(p.steps.empty());
}

}  // namespace
}  // namespace shardmark::test::step_writer_test
