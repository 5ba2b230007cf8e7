// SPDX-License-Identifier: Apache-2.0
// Rule: M ranks read what N ranks wrote, with any stage, schedule, layout and type on either side,
// offloaded or not, over a cover of all pairs. The states are the same bit for bit, and parameters
// are their rounded masters.
#include <cstdio>
#include <cstdlib>

#include <gtest/gtest.h>
#include <unistd.h>

#include <core/numeric/half.hpp>
#include <tests/support/checkpoints.hpp>
#include <tests/support/cover.hpp>

namespace shardmark::test::resume_cover_test {
namespace {

enum Factor {
  ranks_out,
  ranks_in,
  stage_out,
  stage_in,
  schedule_out,
  schedule_in,
  layout,
  dtype_out,
  dtype_in,
  mode,
  tied,
  blocks_out,
  blocks_in,
  offload_out,
  offload_in,
  factors
};
const std::vector<int> levels{4, 4, 4, 4, 2, 2, 3, 3, 3, 2, 2, 3, 3, 3, 3};

// Waits without taking a core from ranks that work.
void wait_quietly(MPI_Request request) {
  for (int done = 0; done == 0;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done == 0) ::usleep(200);
  }
}

/// The first `ranks` of all; null on the others.
class SubWorld {
 public:
  explicit SubWorld(int ranks) {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, rank < ranks ? 0 : MPI_UNDEFINED, rank, &comm_);
    if (comm_ != MPI_COMM_NULL) MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  }
  ~SubWorld() {
    if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
    MPI_Request request;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    wait_quietly(request);
  }
  SubWorld(const SubWorld&) = delete;
  SubWorld& operator=(const SubWorld&) = delete;
  MPI_Comm comm() const { return comm_; }
  bool mine() const { return comm_ != MPI_COMM_NULL; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

Deck deck_of(const std::vector<int>& row, bool out) {
  Deck d = small_deck(row[out ? stage_out : stage_in], 12);
  d.run.schedule =
      row[out ? schedule_out : schedule_in] == 0 ? Schedule::deepspeed : Schedule::paper;
  d.run.memory_mode = row[mode] == (out ? 0 : 1) ? MemoryMode::pooled : MemoryMode::strict;
  constexpr Dtype dtypes[] = {Dtype::fp32, Dtype::bf16, Dtype::fp16};
  const Dtype dtype = dtypes[row[out ? dtype_out : dtype_in]];
  set_precision(d, dtype, dtype);
  d.model.tied_head = row[tied] == 1;
  // One copy of the states, one per block of ranks, or one per rank.
  const int ranks = row[out ? ranks_out : ranks_in] + 1, blocks = row[out ? blocks_out : blocks_in];
  const int size = blocks == 2 ? 1 : ranks % 2 == 0 ? 2 : ranks;
  if (blocks > 0 && d.run.schedule == Schedule::paper) d.run.shard_size = size;
  if (blocks > 0 && d.run.schedule == Schedule::deepspeed)
    d.zero.knobs.hpz_partition_size = blocks == 1 && ranks % 2 == 0 ? 2 : 16;
  // Offload of nothing, of the optimizer, or also of parameters, where schedule and stage have it.
  const int offload =
      d.run.schedule == Schedule::deepspeed ? row[out ? offload_out : offload_in] : 0;
  d.zero.offload_optimizer.enabled = offload > 0 && d.zero.stage > 0;
  d.zero.offload_param.enabled =
      offload > 1 && d.zero.stage == 3 && d.zero.knobs.hpz_partition_size < 2;
  constexpr std::int64_t per_file[] = {1, 2, 0};
  d.checkpoint.ranks_per_file = per_file[row[layout]];
  return d;
}

void expect_rounded_masters(Training& t) {
  const Program& p = t.program();
  const auto at = [&](const StatePiece& piece) { return t.executor().slot(piece.slot); };
  for (const StatePiece& m : p.states)
    for (const StatePiece& w : p.states) {
      if (m.state != State::master || w.state != State::param) continue;
      const auto first = std::max(m.first_elem, w.first_elem);
      const auto end = std::min(m.first_elem + m.elems, w.first_elem + w.elems);
      for (auto e = first; e < end; ++e) {
        const float master = at(m).as<float>()[m.offset + e - m.first_elem];
        const auto i = w.offset + e - w.first_elem;
        const bool same = at(w).dtype == Dtype::fp32 ? at(w).as<float>()[i] == master
                          : at(w).dtype == Dtype::bf16
                              ? at(w).as<Bf16>()[i].bits == round_bf16(master).bits
                              : at(w).as<Fp16>()[i].bits == round_fp16(master).bits;
        ASSERT_TRUE(same) << "element " << e << " of " << p.slots[w.slot].name;
      }
    }
}

StateHashes write_there(const std::vector<int>& row, const std::string& dir) {
  const SubWorld ranks(row[ranks_out] + 1);
  if (!ranks.mine()) return {};
  CheckpointedRun run(with_checkpoints(deck_of(row, true), dir), ranks.comm());
  for (int s = 0; s < 2; ++s) run.training.step();
  run.write();
  return run.training.hashes();
}

void read_here(const std::vector<int>& row, const std::string& dir, StateHashes want) {
  const SubWorld ranks(row[ranks_in] + 1);
  // Ranks that did not write do not know the hashes.
  MPI_Request request;
  MPI_Ibcast(want.of.data(), static_cast<int>(want.of.size()), MPI_UINT64_T, 0, MPI_COMM_WORLD,
             &request);
  wait_quietly(request);
  if (!ranks.mine()) return;
  CheckpointedRun run(with_checkpoints(deck_of(row, false), dir, "latest", 0), ranks.comm());
  StateHashes have = run.training.hashes();
  EXPECT_EQ(have.disagreement, "");
  if (row[dtype_in] != row[dtype_out]) have.of[State::param] = want.of[State::param];
  want.disagreement.clear();
  EXPECT_EQ(have, want);
  expect_rounded_masters(run.training);
  run.training.step();  // training continues
  EXPECT_EQ(run.training.hashes().disagreement, "");
}

TEST(Restart, OnAnyRanksStageScheduleLayoutAndType) {
  // As many rows as cover all pairs, or more on request.
  const char* const at_least = std::getenv("SHARDMARK_TEST_ROWS");
  const auto rows = pairwise_cover(levels, at_least == nullptr ? 0 : std::stoi(at_least));
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) std::printf("%zu combinations cover all pairs\n", rows.size());
  for (const std::vector<int>& row : rows) {
    std::string text;
    for (int value : row) text += " " + std::to_string(value);
    SCOPED_TRACE("row" + text);
    const SharedFolder folder;
    read_here(row, folder.path(), write_there(row, folder.path()));
    if (::testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GE(rows.size(), 16U);
}

}  // namespace
}  // namespace shardmark::test::resume_cover_test
