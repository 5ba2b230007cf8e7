// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <core/plan/deepspeed/stage3/sharded_muon.hpp>

namespace shardmark {
namespace {

Operand updated(Operand o) {
  o.reads = o.writes = true;
  return o;
}

}  // namespace

void ShardedMuon::init() {
  std::vector<int> matrices;
  for (std::size_t g = 0; g < params_.group_count(); ++g) {
    if (!params_.has_matrices(g)) continue;
    find_chunks(g);
    const std::vector<int>& ids = params_.groups().groups()[g].params;
    matrices.insert(matrices.end(), ids.begin(), ids.end());
  }
  orthogonalizer_.declare(matrices);
  gathers_.init(chunks_, c_.offloads() ? 2 : 1);
  c_.program.updates_lack_scale = !c_.offloads() && c_.precision.model == Dtype::fp16;
}

void ShardedMuon::find_chunks(std::size_t g) {
  std::int64_t elems = 0;
  bool open = false;
  for (const int id : params_.groups().groups()[g].params) {
    if (!open || (!c_.offloads() && elems + c_.elems(id) > c_.knobs.reduce_bucket_size)) {
      chunks_.emplace_back().group = g;
      elems = 0;
    }
    open = true;
    MuonChunk& chunk = chunks_.back();
    chunk.params.push_back(id);
    chunk.at.push_back(chunk.row);
    chunk.row += params_.shard(id);
    elems += c_.elems(id);
  }
}

void ShardedMuon::make_updates() {
  for (const MuonChunk& chunk : chunks_)
    c_.offloads() ? update_from_host(chunk) : update_in_rounds(chunk);
}

int ShardedMuon::passing(const std::string& name, Category category, Dtype dtype,
                         std::int64_t elems) {
  const auto [it, fresh] = passing_.try_emplace({name, elems}, no_slot);
  if (fresh)
    it->second = w_.slot(name + "." + std::to_string(passing_.size()), category, dtype, elems);
  w_.acquire(it->second);
  return it->second;
}

// A shard of a chunk in a slot that has them side by side.
Operand ShardedMuon::shard_in(const MuonChunk& chunk, int slot, std::size_t i) const {
  return c_.read_part(slot, chunk.at[i], params_.shard(chunk.params[i]));
}

// The shards of a chunk among those of its sub-group.
std::vector<Operand> ShardedMuon::shards(const MuonChunk& chunk, Operand group) const {
  std::vector<Operand> list;
  for (const int id : chunk.params)
    list.push_back(
        c_.read_part(group.slot, group.offset + params_.groups().offset_of(id), params_.shard(id)));
  return list;
}

// This rank's shard of a whole matrix, without padding.
Operand ShardedMuon::own(int id, Operand matrix) const {
  return c_.read_part(matrix.slot, matrix.offset + params_.shard(id) * c_.program.rank,
                      params_.real(id));
}

void ShardedMuon::update_in_rounds(const MuonChunk& chunk) {
  const SubGroupSlots& s = params_.slots(chunk.group);
  const std::int64_t elems = gathers_.whole_elems(chunk);
  // DeepSpeed copies the momentum before it gathers it, and gradients that are whole already are
  // updated where they lie.
  const int parts =
      passing("muon_momentum_parts", Category::staging, w_[s.momentum].dtype, chunk.row);
  std::vector<Operand> copied;
  const std::vector<Operand> kept = shards(chunk, w_.read(s.momentum));
  for (std::size_t i = 0; i < kept.size(); ++i) {
    copied.push_back(shard_in(chunk, parts, i));
    c_.convert(c_.write_part(parts, chunk.at[i], kept[i].elems), kept[i]);
  }
  const bool grads_whole = gathers_.are_whole(w_[s.grad].dtype);
  int whole_grads = no_slot, whole_momenta = no_slot;
  std::vector<Operand> grads = shards(chunk, w_.read(s.grad)), momenta = copied;
  if (!grads_whole) {
    whole_grads = passing("whole_gradients", Category::gathered, gathers_.type(), elems);
    gathers_.gather(chunk, {grads}, {whole_grads});
    grads = gathers_.matrices(chunk, whole_grads);
  }
  if (c_.world() > 1) {
    whole_momenta = passing("whole_momentum", Category::gathered, gathers_.type(), elems);
    gathers_.gather(chunk, {copied}, {whole_momenta});
    momenta = gathers_.matrices(chunk, whole_momenta);
  }
  orthogonalizer_.acquire();
  const auto ranks = static_cast<std::size_t>(c_.world());
  for (std::size_t first = 0; first < chunk.params.size(); first += ranks) {
    const std::size_t count = std::min(ranks, chunk.params.size() - first);
    update_round(std::span(chunk.params).subspan(first, count),
                 std::span<const Operand>(grads).subspan(first, count),
                 std::span<const Operand>(momenta).subspan(first, count));
  }
  orthogonalizer_.release();
  for (std::size_t i = 0; i < chunk.params.size(); ++i) {
    const int id = chunk.params[i];
    if (params_.real(id) == 0) continue;
    const std::int64_t at = params_.groups().offset_of(id);
    c_.convert(c_.write_part(s.momentum, at, params_.real(id)), own(id, momenta[i]));
    if (!grads_whole) c_.convert(c_.write_part(s.grad, at, params_.real(id)), own(id, grads[i]));
  }
  for (const int slot : {parts, whole_grads, whole_momenta})
    if (slot != no_slot) w_.release(slot);
}

// Each rank makes the update of one matrix; then all of them share updates and momenta.
void ShardedMuon::update_round(std::span<const int> ids, std::span<const Operand> grads,
                               std::span<const Operand> momenta) {
  const auto mine = static_cast<std::size_t>(c_.program.rank);
  if (mine < ids.size())
    orthogonalizer_.update(ids[mine], updated(grads[mine]), updated(momenta[mine]));
  std::int64_t most = 0;
  bool alike = ids.size() == static_cast<std::size_t>(c_.world());
  for (const int id : ids) {
    most = std::max(most, c_.elems(id));
    alike = alike && c_.param(id).shape == c_.param(ids[0]).shape;
  }
  share(ids, grads, alike, most, "gradients");
  share(ids, momenta, alike, most, "momentum");
}

// Matrices of different shapes travel in buffers of the size of the largest one.
void ShardedMuon::share(std::span<const int> ids, std::span<const Operand> matrices, bool alike,
                        std::int64_t most, const std::string& what) {
  const std::vector<int> params(ids.begin(), ids.end());
  if (c_.world() == 1) {
    Operand all = matrices[0];
    return collectives_.issue(Op::all_gather, Reduction::none, all, all, params);
  }
  const auto mine = static_cast<std::size_t>(c_.program.rank);
  const int shared =
      passing("shared_" + what, Category::gathered, gathers_.type(), most * c_.world());
  int padded = no_slot;
  Operand sent = mine < ids.size() ? matrices[mine] : Operand{};
  if (!alike) {
    padded = passing("padded_" + what, Category::gathered, gathers_.type(), most);
    w_.compute(Kernel::zero, {w_.write(padded)});
    if (mine < ids.size()) {
      sent.reads = true, sent.writes = false;
      c_.convert(c_.write_part(padded, 0, sent.elems), sent);
    }
    sent = w_.read(padded);
  }
  collectives_.issue(Op::all_gather, Reduction::none, sent, w_.write(shared), params);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const Operand& m = matrices[i];
    c_.convert(c_.write_part(m.slot, m.offset, m.elems),
               c_.read_part(shared, most * static_cast<std::int64_t>(i), m.elems));
  }
  if (padded != no_slot) w_.release(padded);
  w_.release(shared);
}

void ShardedMuon::update_from_host(const MuonChunk& chunk) {
  const SubGroupSlots& s = params_.slots(chunk.group);
  if (!params_.swaps(chunk.group)) {
    host_grads_ = w_.read(s.grad32);
    host_momentum_ = w_.read(s.momentum);
    return update_from(chunk);
  }
  const OptimizerSwapper::Buffers buffers = swapper_.borrow(s.swapped);
  host_grads_ = buffers.grad;
  host_momentum_ = c_.knobs.muon_momentum_in_memory ? w_.read(s.momentum) : buffers.states[1];
  update_from(chunk);
  swapper_.give_back(s.swapped);
}

// Shards pass through fp32 on their way up and down.
void ShardedMuon::update_from(const MuonChunk& chunk) {
  const Dtype kept = w_[host_momentum_.slot].dtype;
  grad_parts_ = passing("muon_gradient_parts", Category::staging, Dtype::fp32, chunk.row);
  momentum_parts_ = passing("muon_momentum_parts", Category::staging, kept, chunk.row);
  std::vector<std::vector<Operand>> lists;
  for (const auto& [from, parts] :
       {std::pair{host_grads_, grad_parts_}, std::pair{host_momentum_, momentum_parts_}}) {
    std::vector<Operand> list;
    for (const Operand& shard : shards(chunk, from)) {
      list.push_back(shard_in(chunk, parts, list.size()));
      w_.copy(shard, list.back());
    }
    lists.push_back(std::move(list));
  }
  const auto whole_of = [&](int parts, const char* name) {
    return gathers_.are_whole(w_[parts].dtype)
               ? parts
               : passing(name, Category::gathered, gathers_.type(), gathers_.whole_elems(chunk));
  };
  const int grads = whole_of(grad_parts_, "whole_gradients");
  const int momenta = whole_of(momentum_parts_, "whole_momentum");
  if (c_.world() > 1) {
    gathers_.gather(chunk, lists, {grads, momenta});
  } else {
    if (grads != grad_parts_) gathers_.gather(chunk, {lists[0]}, {grads});
    if (momenta != momentum_parts_) gathers_.gather(chunk, {lists[1]}, {momenta});
  }
  const std::vector<Operand> updates = gathers_.matrices(chunk, grads);
  const std::vector<Operand> after = gathers_.matrices(chunk, momenta);
  if (c_.precision.model == Dtype::fp16)
    for (const Operand& gradient : updates) w_.compute(Kernel::unscale, {gradient});
  orthogonalizer_.acquire();
  for (std::size_t i = 0; i < chunk.params.size(); ++i)
    orthogonalizer_.update(chunk.params[i], updates[i], after[i]);
  orthogonalizer_.release();
  for (std::size_t i = 0; i < chunk.params.size(); ++i)
    if (params_.real(chunk.params[i]) > 0) take_own(chunk, i, updates[i], after[i]);
  for (const int slot : {grad_parts_, momentum_parts_, grads, momenta})
    if (w_.alive(slot)) w_.release(slot);
}

void ShardedMuon::take_own(const MuonChunk& chunk, std::size_t i, Operand update,
                           Operand momentum) {
  const int id = chunk.params[i];
  const std::int64_t at = params_.groups().offset_of(id), elems = params_.real(id);
  const Operand mine = own(id, update);
  if (c_.precision.model == Dtype::fp16) w_.compute(Kernel::rescale, {updated(mine)});
  scalars_.add_to_sum(static_cast<int>(chunk.group), mine);
  const auto send_down = [&](Operand from, int parts, const Operand& into) {
    if (from.slot != parts) {
      c_.convert(c_.write_part(parts, chunk.at[i], elems), from);
      from = c_.read_part(parts, chunk.at[i], elems);
    }
    w_.copy(from, c_.write_part(into.slot, into.offset + at, elems));
  };
  send_down(mine, grad_parts_, host_grads_);
  send_down(own(id, momentum), momentum_parts_, host_momentum_);
}

}  // namespace shardmark
