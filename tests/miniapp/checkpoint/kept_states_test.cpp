// SPDX-License-Identifier: Apache-2.0
// Rule: what is kept of a step gives another session the same states, whatever was left out; after
// the step, a parameter that is not what its master or its moments say is found.
#include <optional>

#include <gtest/gtest.h>

#include <miniapp/checkpoint/checkpoint_states.hpp>
#include <miniapp/checkpoint/kept_states.hpp>
#include <miniapp/models/state_kernels.hpp>
#include <tests/support/training.hpp>

namespace shardmark::test::kept_states_test {
namespace {

constexpr int steps = 2;

Deck deck_of(int stage, Dtype dtype) {
  Deck deck = small_deck(stage, 4);
  set_precision(deck, dtype, dtype);
  return deck;
}

// A fp32 state of this rank in its own memory, a parameter or a master.
float* fp32_state(Training& t, State state) {
  for (const WantedElements& w : wanted_states(t.program(), t.executor()))
    if (w.state == state && w.dtype == Dtype::fp32) return reinterpret_cast<float*>(w.into);
  return nullptr;
}

// What a session has that begins with what another one kept.
struct Restored {
  StateHashes kept, fresh, restored;
  std::int64_t bytes = 0, all_bytes = 0;
};
Restored restored(const Deck& deck, bool with_moments, bool strays) {
  Restored r;
  KeptStates states;
  {
    Training t(deck, MPI_COMM_WORLD);
    train_as_predicted(t, steps);
    if (float* param = fp32_state(t, State::param); strays && param != nullptr) *param += 1;
    r.kept = t.hashes();
    states.keep(t.program(), t.executor(), with_moments);
    r.bytes = states.bytes();
    if (!strays) {
      EXPECT_EQ(r.bytes, KeptStates::bytes_to_keep(t.program(), t.executor(), with_moments));
    }
    for (const WantedElements& w : wanted_states(t.program(), t.executor()))
      r.all_bytes += w.elems * dtype_bytes(w.dtype);
  }
  Training t(deck, MPI_COMM_WORLD);
  t.init();
  r.fresh = t.hashes();
  states.restore(t.program(), t.executor());
  r.restored = t.hashes();
  return r;
}

TEST(KeptStates, GiveAnotherSessionTheSameStates) {
  for (int stage = 0; stage <= 3; ++stage)
    for (const Dtype dtype : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
      const Restored r = restored(deck_of(stage, dtype), true, false);
      EXPECT_EQ(r.restored, r.kept) << stage;
      EXPECT_LE(r.bytes, r.all_bytes);
    }
}

TEST(KeptStates, BeginWithMomentsOfZeroWhereTheyLeaveThemOut) {
  for (int stage = 0; stage <= 3; ++stage) {
    const Restored r = restored(deck_of(stage, Dtype::fp32), false, false);
    EXPECT_EQ(r.restored.of[State::param], r.kept.of[State::param]) << stage;
    EXPECT_EQ(r.restored.of[State::master], r.kept.of[State::master]);
    EXPECT_EQ(r.restored.of[State::momentum], r.fresh.of[State::momentum]);
    EXPECT_EQ(r.restored.of[State::variance], r.fresh.of[State::variance]);
    EXPECT_NE(r.restored.of[State::momentum], r.kept.of[State::momentum]);
    EXPECT_LE(2 * r.bytes, r.all_bytes);
  }
}

// Nothing is made of a master that would be another value.
TEST(KeptStates, KeepParametersThatAreNotTheirMasters) {
  if constexpr (!device_is_host) GTEST_SKIP() << "the host changes parameters";
  const Restored r = restored(deck_of(3, Dtype::fp32), true, true);
  EXPECT_NE(r.kept.disagreement, "");
  EXPECT_EQ(r.restored, r.kept);
}

// One step more, of which the states before are kept.
struct AfterAStep {
  Deck deck = deck_of(3, Dtype::fp32);
  Training training{deck, MPI_COMM_WORLD};
  KeptStates kept;

  AfterAStep() {
    train_as_predicted(training, steps);
    kept.keep(training.program(), training.executor(), false);
    training.step();
  }
  std::string wrong_update() {
    const auto step = adamw_step(deck.zero.optimizer, deck.zero.optimizer.lr, steps + 1);
    return compare_updates(sketch_updates(
        training.context(), kept.updated(training.program(), training.executor()), step));
  }
  std::string strayed() { return kept.strayed(training.program(), training.executor()); }
};

TEST(KeptStates, ProveTheUpdateOfAStep) {
  AfterAStep t;
  ASSERT_TRUE(can_leave_moments_out(t.training.program()));
  EXPECT_EQ(t.wrong_update(), "");
  EXPECT_EQ(t.strayed(), "");
  std::int64_t updated = 0, masters = 0;
  for (const UpdatedRange& r : t.kept.updated(t.training.program(), t.training.executor()))
    updated += r.elems;
  for (const StatePiece& p : t.training.program().states)
    masters += p.state == State::master ? p.elems : 0;
  EXPECT_EQ(updated, masters) << "no element is left out, none is proved twice";
  if constexpr (!device_is_host) return;
  float* const param = fp32_state(t.training, State::param);
  ASSERT_NE(param, nullptr);
  *param += 1;
  EXPECT_NE(t.strayed().find("are not their masters' copies"), std::string::npos);
  *fp32_state(t.training, State::master) += 1;
  EXPECT_NE(t.wrong_update(), "");
}

// Who needs the gradient itself, or has few moments, keeps them.
TEST(KeptStates, LeaveMomentsOutForAdamAlone) {
  for (const Optimizer type : all_values<Optimizer>) {
    Deck deck = deck_of(3, Dtype::fp32);
    deck.zero.optimizer.type = type;
    const Program program =
        build_program(deck, Training::batch_of(deck, MPI_COMM_WORLD), world(), 0, Profile{});
    EXPECT_EQ(can_leave_moments_out(program), traits(type).kernel == Kernel::adamw)
        << to_string(type);
  }
}

}  // namespace
}  // namespace shardmark::test::kept_states_test
