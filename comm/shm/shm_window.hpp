// SPDX-License-Identifier: Apache-2.0
// Memory that the ranks of one node share: for each rank a few buffers, and counters that say how
// far it is. A collective passes through it in rounds; round r uses buffer r mod `buffers`, and is
// up to three stages: each rank writes its part into its buffer, some reduce what others wrote, and
// each reads what it needs. A counter holds the number of rounds whose stage its rank has finished,
// since the window was made; so nothing is ever reset, and a rank may write round r once all have
// finished reading round r - buffers.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include <mpi.h>

#include <comm/shm/shared_mapping.hpp>

namespace shardmark {

/// Measured: what the ranks of a core's second-level cache exchange without falling out of it.
inline constexpr std::int64_t default_shm_buffer_bytes = std::int64_t{128} << 10;

class ShmWindow {
 public:
  static constexpr int buffers = 2;
  enum class Stage : std::uint8_t { written, reduced, read };

  /// Collective over `comm`. Null on all ranks, with the reason in `why_not`, where they do not all
  /// share a node or cannot share memory. `buffer_bytes` is rounded up to whole cache lines, and
  /// to 8 bytes for each rank. Throws CommError.
  static std::unique_ptr<ShmWindow> make(MPI_Comm comm, std::int64_t buffer_bytes,
                                         std::string& why_not);
  int rank() const { return rank_; }
  int size() const { return size_; }
  std::int64_t buffer_bytes() const { return buffer_bytes_; }
  /// All ranks' parts together; what each process maps.
  std::int64_t bytes() const { return mapping_.bytes(); }

  void* buffer(int rank, std::uint64_t round) const;
  /// What its rank says about a round: the collective that it is in, and where its data lie.
  struct Notice {
    std::uint64_t signature = 0, address = 0;
  };
  Notice& notice(int rank, std::uint64_t round) const;

  /// Says that this rank has finished `stage` of all rounds up to `round`, counted from 1: what it
  /// wrote before is visible to who sees it.
  void publish(Stage stage, std::uint64_t round);
  /// Whether `rank` has finished `stage` of `round`.
  bool reached(Stage stage, std::uint64_t round, int rank) const;
  /// Whether all ranks have.
  bool all_reached(Stage stage, std::uint64_t round) const;

  /// Local; the same on all ranks. Reserves rounds; the number of rounds before them.
  std::uint64_t take_rounds(std::uint64_t rounds);

 private:
  struct Header;
  ShmWindow(int rank, int size, std::int64_t buffer_bytes);
  std::int64_t rank_bytes() const;
  Header& header(int rank) const;

  int rank_, size_;
  std::int64_t buffer_bytes_;
  SharedMapping mapping_;
  std::uint64_t rounds_ = 0;
};

}  // namespace shardmark
