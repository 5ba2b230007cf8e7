// SPDX-License-Identifier: Apache-2.0
// How whole matrices reach every rank if the optimizer is on the host at stages 1 and 2: batch by
// batch, each rank sends the parts that its partition has. Messages that are too large fall into
// several ones of equal size, so a rank with a smaller part sends zeros.
//
// Source: DeepSpeed 0.19's stage_1_and_2.py, _muon_all_gather_partitions and _muon_param_batches.
#pragma once

#include <map>
#include <vector>

#include <core/plan/deepspeed/collectives.hpp>
#include <core/plan/deepspeed/stage12/stage12_states.hpp>

namespace shardmark {

/// A part of a matrix that one rank owns.
struct MuonPiece {
  int rank = 0;
  std::int64_t from = 0;  // in the rank's partition
  std::int64_t into = 0;  // in the batch
  std::int64_t sent = 0;  // after how many elements of the rank's pieces it is sent
  std::int64_t elems = 0;
};

/// Matrices that are whole at the same time, side by side.
struct MuonBatch {
  std::size_t group = 0;
  std::vector<int> params;
  std::int64_t elems = 0;
  std::vector<MuonPiece> pieces = {};
  std::int64_t most_sent = 0;  // by any rank
};

/// Writes the gathers, and holds the buffers that they send from and receive in.
class MuonGathers {
 public:
  MuonGathers(DeepSpeedContext& context, const FlatStates& states, Collectives& collectives);

  /// Start-up: acquires the buffers that stay.
  void init();
  const std::vector<MuonBatch>& batches() const { return batches_; }
  /// Gathers one partition on the host, or two in the same messages, into whole matrices.
  void gather(const MuonBatch& batch, const std::vector<int>& partitions,
              const std::vector<int>& whole);

 private:
  // Which buffers a gather uses; gathers of equal size share them.
  struct Size {
    std::size_t group = 0;
    std::int64_t chunk = 0;  // elements of one partition that each rank sends in one message
    int partitions = 1;
    auto operator<=>(const Size&) const = default;
  };
  struct Buffers {
    int local = no_slot, gathered = no_slot;
  };
  void find_batches(std::size_t g);
  void add_batch(std::size_t g, const std::vector<int>& params);
  Size size_of(const MuonBatch& batch, int partitions) const;
  Buffers& buffers_of(const Size& size);
  void send(const MuonBatch& batch, const Size& size, std::int64_t first,
            const std::vector<int>& partitions, const std::vector<int>& whole);

  DeepSpeedContext& c_;
  PlanWriter& w_;
  const FlatStates& states_;
  Collectives& collectives_;
  std::vector<MuonBatch> batches_;
  std::map<Size, Buffers> buffers_;
};

}  // namespace shardmark
