// SPDX-License-Identifier: Apache-2.0
// Memory that the ranks of one node share: for each rank a few buffers, and counters that publish
// its progress. A collective uses the window in rounds. Round r uses buffer r mod `buffers` and has
// up to three stages: each rank writes its part into its buffer, some ranks reduce what others
// wrote, and each rank reads what it needs. A counter holds the number of rounds whose stage its
// rank has finished since the window was made. Counters are therefore never reset, and a rank may
// write round r once all ranks have read round r - buffers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <mpi.h>

#include <comm/shm/shared_mapping.hpp>

namespace shardmark {

/// The shared memory of one group. Except for `make`, no function is collective or blocks.
class ShmWindow {
 public:
  /// How many buffers a rank has unless its window is made with another number, and the most.
  static constexpr int default_buffers = 2, most_buffers = 8;
  enum class Stage : std::uint8_t { written, reduced, read };

  /// Collective over `comm`. Null on all ranks, with the reason in `why_not`, if the ranks do not
  /// share one node or cannot share memory. `buffer_bytes` is raised to at least 8 bytes per rank
  /// and rounded up to whole cache lines; `buffers` is at most `most_buffers`. Throws CommError.
  static std::unique_ptr<ShmWindow> make(MPI_Comm comm, std::int64_t buffer_bytes,
                                         std::string& why_not, int buffers = default_buffers);
  int rank() const { return rank_; }
  int size() const { return size_; }
  std::int64_t buffer_bytes() const { return buffer_bytes_; }
  /// The buffers of a rank, and so the most rounds in progress.
  std::uint64_t buffers() const { return buffers_; }
  /// The bytes of all ranks' parts together, as each process maps them.
  std::int64_t bytes() const { return mapping_.bytes(); }

  /// The buffer of `rank` for `round`.
  void* buffer(int rank, std::uint64_t round) const;
  /// What a rank publishes about a round: a hash of its collective, and the address of its data.
  struct Notice {
    std::uint64_t signature = 0, address = 0;
  };
  Notice& notice(int rank, std::uint64_t round) const;

  /// Publishes that this rank has finished `stage` of all rounds up to `round`, counted from 1.
  /// What it wrote before is visible to ranks that see the counter.
  void publish(Stage stage, std::uint64_t round);
  /// Whether `rank` has finished `stage` of `round`.
  bool reached(Stage stage, std::uint64_t round, int rank) const;
  /// Whether all ranks have finished `stage` of `round`.
  bool all_reached(Stage stage, std::uint64_t round) const;
  /// Whether all ranks have read what was last in the buffers for `round`, counted from 0.
  bool free_for(std::uint64_t round) const;

  /// Reserves `rounds` rounds and returns the number of rounds before them. Every rank must make
  /// the same reservations.
  std::uint64_t reserve_rounds(std::uint64_t rounds);

 private:
  struct Header;
  ShmWindow(int rank, int size, std::int64_t buffer_bytes, int buffers);
  std::int64_t rank_bytes() const;
  Header& header(int rank) const;

  int rank_, size_;
  std::uint64_t buffers_;
  std::int64_t buffer_bytes_;
  SharedMapping mapping_;
  std::uint64_t rounds_ = 0;
};

}  // namespace shardmark
