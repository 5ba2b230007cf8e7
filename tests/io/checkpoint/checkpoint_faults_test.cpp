// SPDX-License-Identifier: Apache-2.0
// Any call on a file may fail, on any rank, once or from then on: the ranks end together with the
// same outcome, the message names the file and the system's reason, and what was published before
// stays whole. HDF5 has nothing left to write when the process ends.
#include <cstring>
#include <numeric>

#include <mpi.h>

#include <io/checkpoint/checksum.hpp>
#include <io/checkpoint/folder.hpp>
#include <io/checkpoint/part_writer.hpp>
#include <io/checkpoint/state_reader.hpp>
#include <tests/support/io_faults.hpp>
#include <tests/support/io_scratch.hpp>
#include <tests/support/world_rank.hpp>

namespace shardmark::test::checkpoint_faults_test {
namespace {

bool any(bool mine) {
  int value = mine ? 1 : 0, all = 0;
  MPI_Allreduce(&value, &all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  return all != 0;
}
std::string of_first(std::string text) {
  text.resize(512);
  MPI_Bcast(text.data(), static_cast<int>(text.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
  return text.c_str();
}

// On which ranks a call fails, and how: on all and in all ways, or, so that a test takes seconds,
// on the first and on the last, on each in one way.
std::vector<int> victims() {
#ifdef SHARDMARK_TEST_ALL
  std::vector<int> all(static_cast<std::size_t>(world_size()));
  std::iota(all.begin(), all.end(), 0);
  return all;
#else
  return world_size() == 1 ? std::vector<int>{0} : std::vector<int>{0, world_size() - 1};
#endif
}

std::vector<std::pair<int, bool>> ways([[maybe_unused]] int victim) {
#ifdef SHARDMARK_TEST_ALL
  return {{EIO, false},   {EIO, true},     {ENOSPC, false},
          {ENOSPC, true}, {EDQUOT, false}, {EDQUOT, true}};
#else
  if (victim == 0) return {{EIO, true}};
  return {{EDQUOT, false}};
#endif
}

constexpr std::int64_t elems =
    5000;  // of each rank: some pages that O_DIRECT takes, and an odd end

class Faults : public ::testing::TestWithParam<bool> {
 protected:
  Faults() {
    dir_ = of_first(world_rank() == 0 ? scratch_.path("c") : "");
    if (world_rank() == 0) folder_.emplace(dir_);
    values_.resize(elems);
    for (std::int64_t e = 0; e < elems; ++e)
      values_[static_cast<std::size_t>(e)] = static_cast<float>(world_rank() * elems + e);
  }
  ~Faults() override { MPI_Barrier(MPI_COMM_WORLD); }  // the others may still read
  static bool shared() { return GetParam(); }

  // As a run writes one. Empty: it is published; else this rank's message.
  std::string write(int step) {
    std::string what, path;
    const auto phase = [&](auto body) {
      if (any(!what.empty())) return;
      try {
        body();
      } catch (const IoError& e) {
        what = e.what();
      }
    };
    phase([&] {
      if (folder_) path = folder_->begin(checkpoint_name(step));
    });
    path = of_first(path);
    Manifest m = manifest(step);
    WrittenPart written;
    phase([&] { written = write_part(place(path), sources()); });
    std::vector<WrittenPart> all(static_cast<std::size_t>(world_size()));
    MPI_Allgather(&written, sizeof written, MPI_BYTE, all.data(), sizeof written, MPI_BYTE,
                  MPI_COMM_WORLD);
    for (std::size_t r = 0; r < all.size(); ++r) {
      m.parts[r].digest = all[r].digest;
      CheckpointFile& file = m.files[static_cast<std::size_t>(m.parts[r].file)];
      file.bytes = all[r].file_bytes, file.first_byte = all[r].first_byte;
    }
    phase([&] {
      if (folder_) folder_->publish(checkpoint_name(step), write_manifest(m));
    });
    if (any(!what.empty()) && folder_) folder_->abandon(checkpoint_name(step));
    return what;
  }

  PartPlace place(const std::string& folder) const {
    PartPlace p;
    const int rank = world_rank();
    p.path = folder + "/" + manifest(1).files[shared() ? 0 : static_cast<std::size_t>(rank)].name;
    p.comm = shared() ? MPI_COMM_WORLD : MPI_COMM_NULL;
    const int ranks = shared() ? world_size() : 1;
    p.offset = shared() ? rank * elems : 0;
    p.first_block = shared() ? rank : 0;
    p.elems = elems;
    p.file_elems = ranks * elems, p.file_blocks = ranks;
    return p;
  }
  std::vector<StateSource> sources() const {
    std::vector<StateSource> all;
    for (State s : {State::master, State::momentum, State::variance})
      all.push_back(
          {s, Dtype::fp32, {{reinterpret_cast<const std::byte*>(values_.data()), elems}}});
    return all;
  }
  static Manifest manifest(int step) {
    Manifest m;
    m.position.step = m.position.updates = step;
    m.world = world_size();
    m.params = {{"all", world_size() * elems, {world_size() * elems}}};
    m.deck = "{}";
    for (int r = 0; r < world_size(); ++r) {
      CheckpointPart p;
      p.rank = r, p.file = shared() ? 0 : r;
      p.elems = elems, p.offset = shared() ? r * elems : 0;
      p.map = {{r * elems, elems}};
      m.parts.push_back(p);
      if (!shared() || r == 0) m.files.push_back({"file-" + std::to_string(r) + ".h5", 0, {}});
    }
    return m;
  }

  // Each rank verifies its own part.
  void expect_whole(int step) const {
    const std::string folder = dir_ + "/" + checkpoint_name(step);
    const Manifest m = read_manifest(folder);
    EXPECT_EQ(m.position.step, step);
    const CheckpointPart& part = m.parts[static_cast<std::size_t>(world_rank())];
    for (State s : m.stored()) EXPECT_NO_THROW(verify_part(folder, m, part, s));
  }

  // The n-th call fails on one rank. False: there was none to fail.
  bool fails(const IoFault& fault, int victim) {
    SCOPED_TRACE(fault.call + " " + std::to_string(fault.nth) + " on rank " +
                 std::to_string(victim) + ": " + std::strerror(fault.error) +
                 (fault.lasting ? ", from then on" : ""));
    if (world_rank() == victim) set_io_fault(fault);
    const std::string what = write(2);
    const bool reached = any(io_faults() > 0), failed = any(!what.empty());
    clear_io_fault();
    MPI_Barrier(MPI_COMM_WORLD);
    // open may fail for O_DIRECT alone, and close for what was only read, unless the fault is
    // limited to files that are only written.
    const bool written_only = fault.under != dir_;
    if (reached && fault.call != "open" && (fault.call != "close" || written_only)) {
      EXPECT_TRUE(failed);
    }
    if (!reached) {
      EXPECT_FALSE(failed) << what;
    }
    if (!what.empty() && world_rank() == victim) {
      EXPECT_NE(what.find(dir_), std::string::npos) << what;
      EXPECT_NE(what.find(std::strerror(fault.error)), std::string::npos) << what;
      EXPECT_NE(what.find("give another checkpoint.dir"), std::string::npos) << what;
      EXPECT_FALSE(names_hdf5(what)) << what;
    }
    if (shared() && failed &&
        any(world_rank() == victim && what.find(".h5") != std::string::npos)) {
      EXPECT_FALSE(what.empty()) << "this rank does not know";
    }
    expect_whole(1);
    if (!failed) expect_whole(2);
    return reached;
  }

  const ScratchFolder scratch_;
  std::string dir_;
  std::optional<CheckpointWriterFolder> folder_;  // of rank 0
  std::vector<float> values_;
};

TEST_P(Faults, any_call_on_any_rank_fails_on_all) {
  ASSERT_EQ(write(1), "");
  int cases = 0;
  for (const char* call :
       {"open", "write", "pwrite", "ftruncate", "fallocate", "fsync", "close", "rename"})
    for (const int victim : victims())
      for (const auto& [error, lasting] : ways(victim))
        for (std::int64_t nth = 1; fails({dir_, call, nth, error, lasting}, victim); ++nth) {
          ++cases;
          ASSERT_LT(nth, 1000) << "the calls never end";
        }
  EXPECT_GT(cases, 30);
  if (world_rank() == 0) std::printf("%d calls failed\n", cases);
}

// Network file systems report a full disk or quota when a file is closed. Nothing reads the states
// files while they are written, so each of their descriptors matters.
TEST_P(Faults, a_states_file_that_cannot_be_closed_fails_the_save) {
  ASSERT_EQ(write(1), "");
  const std::string unpublished =
      of_first(folder_ ? folder_->begin(checkpoint_name(2)) : std::string());
  for (const int victim : victims())
    for (const int error : {EIO, EDQUOT}) {
      // The last save of the round before was published.
      MPI_Barrier(MPI_COMM_WORLD);
      if (folder_) std::filesystem::remove_all(dir_ + "/" + checkpoint_name(2));
      MPI_Barrier(MPI_COMM_WORLD);
      std::int64_t nth = 1;
      for (; fails({unpublished + "/file-", "close", nth, error, false}, victim); ++nth) {
        EXPECT_FALSE(std::filesystem::exists(dir_ + "/" + checkpoint_name(2))) << "close " << nth;
        ASSERT_LT(nth, 1000) << "the calls never end";
      }
      EXPECT_GT(nth, 1) << "rank " << victim << " closes no states file";
    }
}

TEST_P(Faults, a_file_that_cannot_be_read_is_named) {
  ASSERT_EQ(write(1), "");
  const std::string folder = dir_ + "/" + checkpoint_name(1);
  const Manifest m = read_manifest(folder);
  const CheckpointPart& part = m.parts[static_cast<std::size_t>(world_rank())];
  for (const bool lasting : {false, true})
    for (std::int64_t nth = 1;; ++nth) {
      set_io_fault({dir_, "pread", nth, EIO, lasting});
      std::string what;
      try {
        for (State s : m.stored()) verify_part(folder, m, part, s);
      } catch (const IoError& e) {
        what = e.what();
      }
      const bool reached = io_faults() > 0;
      clear_io_fault();
      EXPECT_EQ(what.empty(), !reached) << "call " << nth << ": " << what;
      if (!reached) break;
      expect_says(what, {folder, ".h5", "Input/output error", "checkpoint.resume"});
      EXPECT_FALSE(names_hdf5(what)) << what;
    }
}

INSTANTIATE_TEST_SUITE_P(Layout, Faults, ::testing::Bool(),
                         [](const auto& layout) { return layout.param ? "Shared" : "Alone"; });

}  // namespace
}  // namespace shardmark::test::checkpoint_faults_test
