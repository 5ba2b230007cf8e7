// SPDX-License-Identifier: Apache-2.0
// Optimizer states in files (`offload_optimizer.device` "nvme", stage 3). Sub-groups that are large
// enough live on a disk and pass through a fixed number of page-locked buffers of the host: read,
// updated, written back. Their gradients go the same way, as far as a piece is worth a file.
//
// Source: DeepSpeed 0.19's runtime/swap_tensor: optimizer_utils.py, async_swapper.py,
// partitioned_optimizer_swapper.py, pipelined_optimizer_swapper.py.
#pragma once

#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <core/plan/deepspeed/stage3/swap_rules.hpp>
#include <core/plan/write/compute_writer.hpp>
#include <core/plan/write/plan_writer.hpp>

namespace shardmark {

/// Where AdamW finds one sub-group's states and gradient.
struct UpdatePlaces {
  Operand master, grad, momentum, variance;
};

class OptimizerSwapper {
 public:
  OptimizerSwapper(PlanWriter& writer, const Deck& deck)
      : w_(writer), deck_(deck), spec_(deck.zero.offload_optimizer), aio_(deck.zero.aio) {}

  /// Whether `elems` fp32 values are worth a file.
  bool swaps(std::int64_t elems) const {
    return spec_.enabled && spec_.nvme && worth_a_file(aio_, Dtype::fp32, elems);
  }

  /// A sub-group of `elems` that swaps, in the order of updates. Returns its number here.
  int add_group(const std::string& suffix, std::int64_t elems);
  int master(int group) const { return groups_[group].states[0]; }
  int momentum(int group) const { return groups_[group].states[1]; }
  int variance(int group) const { return groups_[group].states[2]; }
  /// A parameter's gradient: `elems` of this rank's own, at `offset` in the sub-group.
  void add_gradient(int group, int param, const std::string& name, std::int64_t offset,
                    std::int64_t elems);

  /// Start-up: all buffers, zero, of the size of the largest of all sub-groups; gradients' files.
  /// Throws DeckError where there are too few buffers for AdamW's states.
  void begin(std::int64_t largest);
  /// Start-up: where a master is made before it is written; zeros in the moments' files.
  Operand first_master(int group) { return part(0, groups_[group].elems); }
  void write_first(int group);

  /// Whether a piece of a gradient is worth no file: it stays on the device, and with it all of the
  /// gradient, until `swap_out`.
  bool stays(int param) const;
  /// Sends a gradient, fp32 on the device, to its files.
  void send(int param, Operand grad);
  /// Writes what is gathered in the buffers. Before a step's update, and before its end.
  void flush();

  /// Reads a sub-group's states and gradient, and the next one's where reading is pipelined.
  UpdatePlaces swap_in(int group);
  /// Writes its states back.
  void swap_out(int group);

 private:
  static constexpr int buffers_a_group = 4;  // master, momentum, variance, gradient

  struct Piece {
    std::int64_t first, elems;  // of the gradient
    int file;                   // no_slot: it stays on the device
  };
  struct Gradient {
    int param;
    std::int64_t offset, elems;  // in the sub-group
    std::vector<Piece> pieces;
    Operand here;  // on the device, where a piece stayed there
  };
  struct Group {
    std::int64_t elems;
    std::array<int, 3> states;  // files: master, momentum, variance
    std::vector<Gradient> gradients;
    bool read = false;  // ahead of its turn
  };
  struct Waiting {
    int file;
    Operand from;
  };

  std::int64_t aligned(std::int64_t elems) const { return file_elems(aio_, Dtype::fp32, elems); }
  int file(const std::string& name, Category category, std::int64_t elems);
  Operand part(int buffer, std::int64_t elems) const {
    return w_.part(buffers_[static_cast<std::size_t>(buffer)], 0, elems, true, true);
  }
  int sets() const;
  int first_buffer(int group) const { return group % sets() * buffers_a_group; }
  Operand room(std::int64_t elems);
  void write_filled();
  void read(int group);
  void read_gradient(Group& group, int buffer);

  PlanWriter& w_;
  const Deck& deck_;
  const OffloadSpec& spec_;
  const AioSpec& aio_;
  std::vector<Group> groups_;
  std::map<int, std::pair<int, std::size_t>> gradient_of_;  // by parameter: group, index in it
  std::vector<int> buffers_;
  // While gradients are sent: the buffer that fills, how far, and what of it is to be written.
  std::size_t filling_ = 0;
  std::int64_t filled_ = 0;
  std::vector<Waiting> waiting_;
};

}  // namespace shardmark
