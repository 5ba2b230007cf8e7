// SPDX-License-Identifier: Apache-2.0
#include <core/plan/deepspeed/stage12/offloaded_muon.hpp>
#include <core/plan/write/state_writer.hpp>

namespace shardmark {

void OffloadedMuon::init() {
  std::vector<int> matrices;
  for (std::size_t g = 0; g < states_.groups().size(); ++g) {
    if (!states_.has_matrices(g)) continue;
    const FlatGroup& group = states_.groups()[g];
    matrices.insert(matrices.end(), group.params.begin(), group.params.end());
    momentum_[g] = c_.host_slot("momentum" + states_.suffix(g), Category::momentum, Dtype::fp32,
                                group.partition);
    place_state(c_.program, State::momentum, momentum_[g], 0, group.layout, states_.own_first(g),
                group.partition);
    acquire_zeroed(w_, momentum_[g]);
  }
  orthogonalizer_.declare(matrices);
  gathers_.init();
}

void OffloadedMuon::make_updates(bool first) {
  for (const MuonBatch& batch : gathers_.batches()) make_updates(batch, first);
}

// Iterations lose the scale of the loss, so gradients enter the momentum without it.
void OffloadedMuon::make_updates(const MuonBatch& batch, bool first) {
  const int grads = grads_.slot(batch.elems);
  const int momentum = momenta_.slot(batch.elems);
  for (const int slot : {grads, momentum}) w_.acquire(slot);
  if (first) {
    gathers_.gather(batch, {states_.host_grad(batch.group)}, {grads});
    w_.compute(Kernel::zero, {w_.write(momentum)});
  } else {
    gathers_.gather(batch, {states_.host_grad(batch.group), momentum_[batch.group]},
                    {grads, momentum});
  }
  if (c_.precision.model == Dtype::fp16) w_.compute(Kernel::unscale, {w_.update(grads)});
  orthogonalizer_.acquire();
  std::int64_t at = 0;
  for (const int id : batch.params) {
    orthogonalizer_.update(id, c_.update_part(grads, at, c_.elems(id)),
                           c_.update_part(momentum, at, c_.elems(id)));
    at += c_.elems(id);
  }
  orthogonalizer_.release();
  for (const MuonPiece& piece : batch.pieces)
    if (piece.rank == c_.program.rank) take_own(batch, piece, grads, momentum);
  for (const int slot : {grads, momentum}) w_.release(slot);
}

void OffloadedMuon::take_own(const MuonBatch& batch, const MuonPiece& piece, int grads,
                             int momentum) {
  const Operand update = c_.update_part(grads, piece.into, piece.elems);
  if (c_.precision.model == Dtype::fp16) w_.compute(Kernel::rescale, {update});
  scalars_.add_to_sum(static_cast<int>(batch.group), update);
  w_.copy(update, c_.write_part(states_.host_grad(batch.group), piece.from, piece.elems));
  w_.copy(c_.read_part(momentum, piece.into, piece.elems),
          c_.write_part(momentum_[batch.group], piece.from, piece.elems));
}

}  // namespace shardmark
