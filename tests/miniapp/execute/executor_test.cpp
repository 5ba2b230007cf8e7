// SPDX-License-Identifier: Apache-2.0
// Rules: the executor runs events that `paper` never writes (groups, roots, copies between tiers,
// three lanes), and computes while collectives are in flight.
#include <gtest/gtest.h>

#include <comm/decorators/delaying.hpp>
#include <core/plan/interpret/check.hpp>
#include <core/plan/interpret/footprint.hpp>
#include <core/plan/write/plan_writer.hpp>
#include <tests/support/training.hpp>

namespace shardmark::test::executor_test {
namespace {

int rank() {
  int r = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &r);
  return r;
}

// Writes rank + 1 where the plan says backward, doubles where it says adamw.
class Numbers : public Model {
 public:
  void run(const Program& program, const Event& event, std::span<const Bound> ops,
           const StepValues&) override {
    float* x = ops[0].as<float>();
    for (std::int64_t i = 0; i < ops[0].elems; ++i) {
      if (event.kernel == Kernel::backward) x[i] = static_cast<float>(program.rank + 1);
      if (event.kernel == Kernel::adamw) x[i] *= 2;
    }
  }
};

// In each pair of ranks, a device buffer is reduced to the pair's rank 1, copied to the host,
// doubled there, copied back, and broadcast.
TEST(Executor, RunsGroupsRootsAndCopiesBetweenTiers) {
  if (world() % 2 != 0) GTEST_SKIP() << "needs pairs of ranks";
  ModelSpec spec;
  spec.family = Family::list;
  spec.modules = {{"w", {100}}};
  Program p;
  p.world = world();
  p.mesh = Mesh(p.world, 0, {});
  p.rank = rank();
  p.batch = {world(), 1, 1};
  p.model = build_model_shape(spec);
  const int first = rank() / 2 * 2;
  p.groups = {{"world", {}}, {"pair", {first, first + 1}}};
  PlanWriter w(p);
  const int device = w.slot("device", Category::bucket, Dtype::fp32, 100);
  const int host = w.slot("host", Category::staging, Dtype::fp32, 100, Tier::host);
  const std::array<int, 1> params{0};
  w.begin(SegmentKind::init, "init", Gradients::none);
  w.end(Gradients::none);
  w.begin(SegmentKind::micro, "micro", Gradients::none);
  w.phase(Phase::backward);
  w.acquire(device);
  const Operand made = w.write(device);
  w.compute(Kernel::backward, {made}, params);
  const std::array<Operand, 2> in_place{w.read(device), w.write(device)};
  w.collective(Op::reduce, Reduction::sum, Dtype::fp32, 100, in_place, params, 1, 1);
  w.acquire(host);
  w.copy(w.read(device), w.write(host));
  w.end(Gradients::reduced);
  w.begin(SegmentKind::boundary, "boundary", Gradients::reduced);
  w.end(Gradients::reduced);
  w.begin(SegmentKind::update, "update", Gradients::reduced);
  w.phase(Phase::step);
  const Operand doubled = w.update(host);
  w.compute(Kernel::adamw, {doubled}, params);
  w.copy(w.read(host), w.write(device));
  w.collective(Op::broadcast, Reduction::none, Dtype::fp32, 100, in_place, {}, 1, 1);
  w.end(Gradients::none);

  auto lane = make_communicator(Backend::mpi, MPI_COMM_WORLD, mpi_options(Reductions::native));
  const auto pair = lane->split(rank() / 2, rank());
  Numbers model;
  Ledger ledger;
  Executor executor(p, model, {lane.get(), pair.get()}, Space(), &ledger);
  for (int segment = 0; segment < 4; ++segment) executor.run(segment, {});
  const float expected = 2.0F * static_cast<float>(first + 1 + first + 2);
  const Bound result = executor.slot(device);
  for (std::int64_t i = 0; i < result.elems; ++i) ASSERT_EQ(result.as<float>()[i], expected) << i;
  const LedgerSnapshot seen = ledger.snapshot();
  const Footprint predicted = footprint(p);
  EXPECT_EQ(seen[Tier::host].peak_bytes, predicted[Tier::host].peak_bytes);
  EXPECT_EQ(seen[Tier::device].peak_bytes, predicted[Tier::device].peak_bytes);
  EXPECT_GT(seen[Tier::host].peak_bytes, 0);
}

// Counts, for each collective, the compute events that ran between its start and its end.
struct Trace {
  std::int64_t computes = 0;
  std::vector<std::int64_t> at_start, at_end;
};

class TracedModel : public Model {
 public:
  TracedModel(std::unique_ptr<Model> inner, Trace& trace)
      : inner_(std::move(inner)), trace_(trace) {}
  void run(const Program& program, const Event& event, std::span<const Bound> ops,
           const StepValues& values) override {
    inner_->run(program, event, ops, values);
    ++trace_.computes;
  }

 private:
  std::unique_ptr<Model> inner_;
  Trace& trace_;
};

class TracedLane : public ForwardingCommunicator {
 public:
  TracedLane(std::unique_ptr<Communicator> lane, Trace& trace)
      : ForwardingCommunicator(std::move(lane)), trace_(trace) {}
  Ticket start(const Collective& c) override {
    trace_.at_start.push_back(trace_.computes);
    trace_.at_end.push_back(-1);
    return inner().start(c);
  }
  void wait(Ticket ticket) override {
    for (std::size_t i = 0; i < ticket && i < trace_.at_end.size(); ++i)
      if (trace_.at_end[i] < 0) trace_.at_end[i] = trace_.computes;
    inner().wait(ticket);
  }
  std::unique_ptr<Communicator> split(int color, int key) override {
    return inner().split(color, key);
  }

 private:
  Trace& trace_;
};

// At stage 3 only collectives without compute before or after them may be waited for at once: the
// first gather of each pass, the last reduction, and the norm.
TEST(Executor, ComputesWhileCollectivesAreOpen) {
  Trace trace;
  Deck deck = small_deck(3, 2 * world());
  deck.run.schedule = Schedule::paper;
  deck.model.layers = 6;
  Training t(
      deck, MPI_COMM_WORLD,
      [&](std::unique_ptr<Communicator> lane) {
        return std::make_unique<TracedLane>(std::move(lane), trace);
      },
      [&](std::unique_ptr<Model> model) {
        return std::make_unique<TracedModel>(std::move(model), trace);
      });
  t.init();
  t.bare_step();
  ASSERT_EQ(trace.at_start.size(), 3 * 8U + 1);
  int at_once = 0;
  for (std::size_t i = 0; i < trace.at_start.size(); ++i) {
    EXPECT_GE(trace.at_end[i], 0) << "collective " << i << " was never waited for";
    at_once += trace.at_end[i] == trace.at_start[i] ? 1 : 0;
  }
  EXPECT_LE(at_once, 4);
}

}  // namespace
}  // namespace shardmark::test::executor_test
