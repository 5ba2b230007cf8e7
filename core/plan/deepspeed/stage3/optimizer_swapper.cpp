// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/core.h>

#include <core/error.hpp>
#include <core/plan/deepspeed/stage3/optimizer_swapper.hpp>
#include <core/plan/write/state_writer.hpp>
#include <core/text.hpp>

namespace shardmark {

int OptimizerSwapper::declare_file(const std::string& name, Category category, std::int64_t elems) {
  return w_.slot(name, category, Dtype::fp32, aligned(elems), Tier::nvme);
}

int OptimizerSwapper::add_group(StateSlots states, std::int64_t elems) {
  most_states_ = std::max(most_states_, static_cast<int>(states.all().size()));
  groups_.push_back({elems, std::move(states), {}});
  return static_cast<int>(groups_.size()) - 1;
}

// A gradient whose size is no multiple of the alignment is split, since its end is too small for a
// file.
void OptimizerSwapper::add_gradient(int group, int param, const std::string& name,
                                    std::int64_t offset, std::int64_t elems) {
  Gradient gradient{param, offset, elems, {}, {}};
  const std::int64_t unit = file_unit(aio_, Dtype::fp32);
  const std::int64_t cut = swaps(elems) ? elems / unit * unit : elems;
  for (const auto& [first, n] : {std::pair{std::int64_t{0}, cut}, std::pair{cut, elems - cut}}) {
    if (n == 0) continue;
    const bool worth = swaps(n) && n % unit == 0;
    gradient.pieces.push_back(
        {first, n, worth ? declare_file("grad_file." + name, Category::grad, n) : no_slot});
  }
  auto& gradients = groups_[group].gradients;
  gradient_of_[param] = {group, gradients.size()};
  gradients.push_back(std::move(gradient));
}

// States that are read ahead or written behind have a set of buffers of their own.
int OptimizerSwapper::sets() const {
  const int wanted = 1 + (spec_.pipeline_read ? 1 : 0) + (spec_.pipeline_write ? 1 : 0);
  return std::max(1, std::min(wanted, static_cast<int>(groups_.size())));
}

OptimizerSwapper::Buffers OptimizerSwapper::buffers_of(int group) const {
  int buffer = group % sets() * set_size();
  Buffers buffers;
  for (std::size_t i = 0; i < groups_[group].states.all().size(); ++i)
    buffers.states.push_back(part(buffer++, groups_[group].elems));
  buffers.grad = part(buffer, groups_[group].elems);
  return buffers;
}

void OptimizerSwapper::begin(std::int64_t largest) {
  if (groups_.empty()) return;
  const int needed = sets() * set_size();
  if (spec_.buffer_count < needed)
    throw DeckError(fmt::format(
        "{}: deepspeed.zero_optimization.offload_optimizer.buffer_count = {}: {} needs {} "
        "(master, gradient and {} of {} at a time): give {}{}",
        deck_.path, spec_.buffer_count, to_string(deck_.zero.optimizer.type), needed,
        plural(set_size() - 2, "state"), plural(sets(), "sub-group"), needed,
        sets() == 1 ? "" : ", or neither pipeline_read nor pipeline_write"));
  for (std::int64_t i = 0; i < spec_.buffer_count; ++i) {
    buffers_.push_back(w_.slot(fmt::format("swap.{}", i), Category::staging, Dtype::fp32,
                               aligned(largest), Tier::host, {}, true));
    acquire_zeroed(w_, buffers_.back());
  }
  for (const Group& group : groups_)
    for (const Gradient& gradient : group.gradients)
      for (const Piece& piece : gradient.pieces)
        if (piece.file != no_slot) w_.acquire(piece.file);
}

// DeepSpeed makes the moments' files when the first step writes them.
void OptimizerSwapper::write_first(int group) {
  const StateSlots& states = groups_[group].states;
  for (int file : states.all()) {
    w_.acquire(file);
    w_.copy(part(file == states.master() ? 0 : 1, w_[file].elems), w_.write(file));
  }
}

// A full buffer is written to files while the next one fills.
Operand OptimizerSwapper::room(std::int64_t elems) {
  if (filled_ + elems > w_[buffers_[0]].elems) {
    write_filled();
    filling_ = (filling_ + 1) % buffers_.size();
    filled_ = 0;
  }
  const Operand place = w_.update(buffers_[filling_], filled_, elems);
  filled_ += elems;
  return place;
}

void OptimizerSwapper::write_filled() {
  for (const Waiting& piece : waiting_) w_.copy(piece.from, w_.write(piece.file));
  waiting_.clear();
}

bool OptimizerSwapper::stays(int param) const {
  const auto [group, index] = gradient_of_.at(param);
  const std::vector<Piece>& pieces = groups_[group].gradients[index].pieces;
  return std::ranges::any_of(pieces, [](const Piece& p) { return p.file == no_slot; });
}

void OptimizerSwapper::send(int param, Operand grad) {
  const auto [group, index] = gradient_of_.at(param);
  Gradient& gradient = groups_[group].gradients[index];
  gradient.here = grad;
  for (const Piece& piece : gradient.pieces) {
    if (piece.file == no_slot) continue;
    const Operand place = room(piece.elems);
    w_.copy(w_.read(grad, piece.first, piece.elems), place);
    waiting_.push_back({piece.file, place});
  }
}

void OptimizerSwapper::flush() {
  write_filled();
  filling_ = 0;
  filled_ = 0;
}

// Where a piece lies between the backward pass and the update.
Operand OptimizerSwapper::kept(const Gradient& gradient, const Piece& piece) const {
  if (piece.file != no_slot) return w_.update(piece.file);
  const Operand& here = gradient.here;
  return w_.update(here.slot, here.offset + piece.first, piece.elems);
}

void OptimizerSwapper::read_gradient(const Group& group, int slot) {
  const auto into = [&](std::int64_t first, std::int64_t elems) {
    return w_.write(slot, first, elems);
  };
  // Padding has no gradient. The update must not see what another gradient left in the buffer.
  std::int64_t end = 0;
  for (const Gradient& gradient : group.gradients) {
    if (gradient.offset > end) w_.compute(Kernel::zero, {into(end, gradient.offset - end)});
    end = gradient.offset + gradient.elems;
  }
  if (group.elems > end) w_.compute(Kernel::zero, {into(end, group.elems - end)});
  for (const Gradient& gradient : group.gradients)
    for (const Piece& piece : gradient.pieces)
      w_.copy(kept(gradient, piece), into(gradient.offset + piece.first, piece.elems));
}

// A file is longer than its state, up to the alignment.
Operand OptimizerSwapper::as_long_as(int file, Operand place) const {
  place.elems = w_[file].elems;
  return place;
}

void OptimizerSwapper::read(int index) {
  Group& group = groups_[index];
  group.read = true;
  const Buffers to = buffers_of(index);
  for (std::size_t i = 0; i < to.states.size(); ++i) {
    const int file = group.states.all()[i];
    w_.copy(w_.read(file), as_long_as(file, to.states[i]));
  }
  read_gradient(group, to.grad.slot);
}

UpdatePlaces OptimizerSwapper::swap_in(int index) {
  Group& group = groups_[index];
  if (!group.read) read(index);
  group.read = false;
  if (spec_.pipeline_read && index + 1 < static_cast<int>(groups_.size())) read(index + 1);
  const Buffers from = buffers_of(index);
  UpdatePlaces places{from.states[0], w_.read(from.grad), {}};
  for (std::size_t i = 0; i < group.states.moments().size(); ++i)
    places.moments.push_back(from.states[i + 1]);
  return places;
}

void OptimizerSwapper::swap_out(int index) {
  const Buffers from = buffers_of(index);
  for (std::size_t i = 0; i < from.states.size(); ++i) {
    const int file = groups_[index].states.all()[i];
    w_.copy(as_long_as(file, from.states[i]), w_.write(file));
  }
}

OptimizerSwapper::Buffers OptimizerSwapper::borrow(int index) {
  read(index);
  return buffers_of(index);
}

void OptimizerSwapper::give_back(int index) {
  Group& group = groups_[index];
  group.read = false;
  if (group.states.all().size() > 1) swap_out(index);
  const int slot = buffers_of(index).grad.slot;
  for (const Gradient& gradient : group.gradients)
    for (const Piece& piece : gradient.pieces)
      w_.copy(w_.read(slot, gradient.offset + piece.first, piece.elems), kept(gradient, piece));
}

}  // namespace shardmark
