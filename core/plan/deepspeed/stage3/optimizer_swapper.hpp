// SPDX-License-Identifier: Apache-2.0
// Optimizer states in files (`offload_optimizer.device` "nvme", stage 3). The states of sub-groups
// that are large enough lie on a disk and pass through a fixed number of page-locked buffers on the
// host: they are read, updated and written back. Pieces of gradients that are large enough pass
// through files in the same way.
//
// Source: DeepSpeed 0.19's runtime/swap_tensor: optimizer_utils.py, async_swapper.py,
// partitioned_optimizer_swapper.py, pipelined_optimizer_swapper.py.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <core/plan/deepspeed/stage3/swap_rules.hpp>
#include <core/plan/write/compute_writer.hpp>
#include <core/plan/write/plan_writer.hpp>
#include <core/plan/write/state_slots.hpp>

namespace shardmark {

/// Writes the events that bring optimizer states and gradients from files into buffers and back.
class OptimizerSwapper {
 public:
  OptimizerSwapper(PlanWriter& writer, const Deck& deck)
      : w_(writer), deck_(deck), spec_(deck.zero.offload_optimizer), aio_(deck.zero.aio) {}

  /// Whether `elems` fp32 values are large enough for a file.
  bool swaps(std::int64_t elems) const {
    return spec_.enabled && spec_.nvme && worth_a_file(aio_, Dtype::fp32, elems);
  }

  /// Declares the file of a state.
  int declare_file(const std::string& name, Category category, std::int64_t elems);
  /// Adds a sub-group of `elems` elements whose states are files, in the order of updates. Returns
  /// its number here.
  int add_group(StateSlots states, std::int64_t elems);
  /// Adds a parameter's gradient: `elems` elements of this rank's own, at `offset` in the
  /// sub-group.
  void add_gradient(int group, int param, const std::string& name, std::int64_t offset,
                    std::int64_t elems);

  /// Start-up: acquires the gradients' files and all buffers, cleared, of the size of the largest
  /// sub-group. Throws DeckError if there are too few buffers for the optimizer's states.
  void begin(std::int64_t largest);
  /// Start-up: the place where a master is made, which `write_first` then writes to its file; it
  /// also writes zeros to the moments' files.
  Operand first_master(int group) { return part(0, groups_[group].elems); }
  void write_first(int group);

  /// Whether a piece of a gradient is too small for a file. It then stays on the device until
  /// `swap_out`, and the whole gradient with it.
  bool stays(int param) const;
  /// Copies a gradient, fp32 on the device, to its files.
  void send(int param, Operand grad);
  /// Writes what the buffers hold. To be called before a step's update, and before its end.
  void flush();

  /// Reads a sub-group's states and gradient, and those of the next one if reading is pipelined.
  UpdatePlaces swap_in(int group);
  /// Writes the sub-group's states back.
  void swap_out(int group);

  /// Where the states of a sub-group, the master first, and its gradient lie while they are read.
  struct Buffers {
    std::vector<Operand> states;
    Operand grad;
  };
  /// Reads a sub-group's states and gradient, but nothing ahead, before the updates of a step.
  Buffers borrow(int group);
  /// Writes it back, but for a master without other states, which cannot have changed. Pieces of
  /// gradients that are in no file return to the device.
  void give_back(int group);

 private:
  struct Piece {
    std::int64_t first, elems;  // of the gradient
    int file;                   // no_slot if it stays on the device
  };
  struct Gradient {
    int param;
    std::int64_t offset, elems;  // in the sub-group
    std::vector<Piece> pieces;
    Operand here;  // on the device, if a piece stayed there
  };
  struct Group {
    std::int64_t elems;
    StateSlots states;  // files
    std::vector<Gradient> gradients;
    bool read = false;  // already, ahead of its turn
  };
  struct Waiting {
    int file;
    Operand from;
  };

  std::int64_t aligned(std::int64_t elems) const { return file_elems(aio_, Dtype::fp32, elems); }
  Operand part(int buffer, std::int64_t elems) const {
    return w_.update(buffers_[static_cast<std::size_t>(buffer)], 0, elems);
  }
  Operand as_long_as(int file, Operand place) const;
  int sets() const;
  /// Buffers per sub-group, of the one that needs most: one per state, then one for the gradient.
  int set_size() const { return most_states_ + 1; }
  Buffers buffers_of(int group) const;
  Operand room(std::int64_t elems);
  void write_filled();
  void read(int group);
  Operand kept(const Gradient& gradient, const Piece& piece) const;
  void read_gradient(const Group& group, int slot);

  PlanWriter& w_;
  const Deck& deck_;
  const OffloadSpec& spec_;
  const AioSpec& aio_;
  std::vector<Group> groups_;
  int most_states_ = 0;                                     // of a group, the master included
  std::map<int, std::pair<int, std::size_t>> gradient_of_;  // by parameter: group, index in it
  std::vector<int> buffers_;
  // While gradients are sent: the buffer that fills, how far it is filled, and what must be
  // written.
  std::size_t filling_ = 0;
  std::int64_t filled_ = 0;
  std::vector<Waiting> waiting_;
};

}  // namespace shardmark
