// SPDX-License-Identifier: Apache-2.0
// The two placements of Muon at stage 3. On the device matrices are dealt to the ranks in rounds,
// each rank makes the update of one matrix per round, and every rank gathers all updates and
// momenta to keep its own shards. With the optimizer on the host every rank makes all updates; what
// lies in files is read and written back for that.
//
// Source: DeepSpeed 0.19's stage3.py, _apply_muon_to_accumulated_grads, _muon_update_sub_group and
// _apply_muon_updates_cpu_offload.
#include <algorithm>

#include <core/plan/deepspeed/stage3/sharded_muon.hpp>

namespace shardmark {
namespace {

class DealtMatrices final : public ShardedMuon {
 public:
  using ShardedMuon::ShardedMuon;

 private:
  // DeepSpeed copies the momentum before it gathers it, and gradients that are whole already are
  // updated where they lie.
  Matrices gather(std::size_t number) override {
    const Chunk& chunk = this->chunk(number);
    const SubGroupSlots& s = params_.slots(chunk.group);
    parts_ = passing("muon_momentum_parts", Category::staging, w_[s.momentum].dtype, chunk.row);
    std::vector<Operand> grads = shards(chunk, w_.read(s.grad)), momenta;
    for (const Operand& shard : shards(chunk, w_.read(s.momentum))) {
      momenta.push_back(shard_in(chunk, parts_, momenta.size()));
      w_.convert(w_.write(parts_, momenta.back().offset, shard.elems), shard);
    }
    whole_grads_ = whole_momenta_ = no_slot;
    if (!are_whole(w_[s.grad].dtype)) {
      whole_grads_ = whole_slot(chunk, "whole_gradients");
      gather_shards(chunk, {grads}, {whole_grads_});
      grads = matrices(chunk, whole_grads_);
    }
    if (c_.world() > 1) {
      whole_momenta_ = whole_slot(chunk, "whole_momentum");
      gather_shards(chunk, {momenta}, {whole_momenta_});
      momenta = matrices(chunk, whole_momenta_);
    }
    Matrices list;
    for (std::size_t i = 0; i < chunk.params.size(); ++i)
      list.push_back({chunk.params[i], grads[i], momenta[i]});
    return list;
  }

  void scatter(std::size_t number, const Matrices& made) override {
    const SubGroupSlots& s = params_.slots(chunk(number).group);
    for (const Matrix& m : made) {
      const std::int64_t at = params_.groups().offset_of(m.id), elems = params_.real(m.id);
      if (elems == 0) continue;
      w_.convert(w_.write(s.momentum, at, elems), own(m.id, m.momentum));
      if (whole_grads_ != no_slot) w_.convert(w_.write(s.grad, at, elems), own(m.id, m.grad));
    }
    for (const int slot : {parts_, whole_grads_, whole_momenta_})
      if (slot != no_slot) w_.release(slot);
  }

  // All ranks share updates and momenta. Matrices of different shapes travel in buffers of the size
  // of the largest one.
  void share(std::span<const Matrix> round) override {
    std::int64_t most = 0;
    bool alike = round.size() == static_cast<std::size_t>(c_.world());
    for (const Matrix& m : round) {
      most = std::max(most, c_.elems(m.id));
      alike = alike && c_.param(m.id).shape == c_.param(round[0].id).shape;
    }
    share(round, &Matrix::grad, alike, most, "gradients");
    share(round, &Matrix::momentum, alike, most, "momentum");
  }

  void share(std::span<const Matrix> round, Operand Matrix::*part, bool alike, std::int64_t most,
             const std::string& what) {
    std::vector<int> params;
    for (const Matrix& m : round) params.push_back(m.id);
    if (c_.world() == 1)
      return collectives_.issue(Op::all_gather, Reduction::none, round[0].*part, round[0].*part,
                                params);
    const auto mine = static_cast<std::size_t>(c_.program.partition_rank());
    const int shared = passing("shared_" + what, Category::gathered, type(), most * c_.world());
    int padded = no_slot;
    Operand sent = mine < round.size() ? round[mine].*part : Operand{};
    if (!alike) {
      padded = passing("padded_" + what, Category::gathered, type(), most);
      w_.compute(Kernel::zero, {w_.write(padded)});
      if (mine < round.size()) w_.convert(w_.write(padded, 0, sent.elems), w_.read(sent));
      sent = w_.read(padded);
    }
    collectives_.issue(Op::all_gather, Reduction::none, sent, w_.write(shared), params);
    std::int64_t at = 0;
    for (const Matrix& m : round) {
      const Operand& to = m.*part;
      w_.convert(w_.write(to), w_.read(shared, at, to.elems));
      at += most;
    }
    if (padded != no_slot) w_.release(padded);
    w_.release(shared);
  }

  // Of the chunk: shards of the momentum, and whole matrices.
  int parts_ = no_slot, whole_grads_ = no_slot, whole_momenta_ = no_slot;
};

class HostShards final : public ShardedMuon {
 public:
  using ShardedMuon::ShardedMuon;

 private:
  // Gradients, or the momentum, of a chunk.
  struct List {
    Operand host = {};    // of the sub-group
    int parts = no_slot;  // the chunk's shards, on the device
    int whole = no_slot;  // its whole matrices
  };

  void find_on_host(std::size_t group) {
    const SubGroupSlots& s = params_.slots(group);
    of_grads_ = {}, of_momenta_ = {};
    if (params_.swaps(group)) {
      const OptimizerSwapper::Buffers buffers = params_.swapper().borrow(s.swapped);
      of_grads_.host = buffers.grad;
      of_momenta_.host = c_.knobs.muon_momentum_in_memory ? w_.read(s.momentum) : buffers.states[1];
    } else {
      of_grads_.host = w_.read(s.grad32), of_momenta_.host = w_.read(s.momentum);
    }
  }

  // Shards pass through fp32 on their way up and down.
  Matrices gather(std::size_t number) override {
    const Chunk& chunk = this->chunk(number);
    find_on_host(chunk.group);
    of_grads_.parts = passing("muon_gradient_parts", Category::staging, Dtype::fp32, chunk.row);
    of_momenta_.parts = passing("muon_momentum_parts", Category::staging,
                                w_[of_momenta_.host.slot].dtype, chunk.row);
    std::vector<std::vector<Operand>> lists;
    for (const List* list : {&of_grads_, &of_momenta_}) {
      std::vector<Operand>& here = lists.emplace_back();
      for (const Operand& shard : shards(chunk, list->host)) {
        here.push_back(shard_in(chunk, list->parts, here.size()));
        w_.copy(shard, here.back());
      }
    }
    const auto whole_of = [&](int parts, const char* name) {
      return are_whole(w_[parts].dtype) ? parts : whole_slot(chunk, name);
    };
    of_grads_.whole = whole_of(of_grads_.parts, "whole_gradients");
    of_momenta_.whole = whole_of(of_momenta_.parts, "whole_momentum");
    if (c_.world() > 1) {
      gather_shards(chunk, lists, {of_grads_.whole, of_momenta_.whole});
    } else {
      if (of_grads_.whole != of_grads_.parts) gather_shards(chunk, {lists[0]}, {of_grads_.whole});
      if (of_momenta_.whole != of_momenta_.parts)
        gather_shards(chunk, {lists[1]}, {of_momenta_.whole});
    }
    const std::vector<Operand> grads = matrices(chunk, of_grads_.whole);
    const std::vector<Operand> momenta = matrices(chunk, of_momenta_.whole);
    if (has_scale())
      for (const Operand& gradient : grads) w_.compute(Kernel::unscale, {gradient});
    Matrices list;
    for (std::size_t i = 0; i < grads.size(); ++i)
      list.push_back({chunk.params[i], grads[i], momenta[i]});
    return list;
  }

  void scatter(std::size_t number, const Matrices& made) override {
    const Chunk& chunk = this->chunk(number);
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (params_.real(made[i].id) == 0) continue;
      count_update(chunk.group, own(made[i].id, made[i].grad));
      send_down(chunk, i, of_grads_, own(made[i].id, made[i].grad));
      send_down(chunk, i, of_momenta_, own(made[i].id, made[i].momentum));
    }
    for (const int slot : {of_grads_.parts, of_momenta_.parts, of_grads_.whole, of_momenta_.whole})
      w_.drop(slot);
    if (params_.swaps(chunk.group)) params_.swapper().give_back(params_.slots(chunk.group).swapped);
  }

  void send_down(const Chunk& chunk, std::size_t i, const List& list, Operand mine) {
    if (mine.slot != list.parts) {
      w_.convert(w_.write(list.parts, chunk.at[i], mine.elems), mine);
      mine = w_.read(list.parts, chunk.at[i], mine.elems);
    }
    const std::int64_t at = params_.groups().offset_of(chunk.params[i]);
    w_.copy(mine, w_.write(list.host.slot, list.host.offset + at, mine.elems));
  }

  List of_grads_, of_momenta_;
};

}  // namespace

std::unique_ptr<Muon> muon_of_shards(StageContext& context, ShardedParams& params) {
  if (muon_placement(3, context.offloads(), false).maker == MuonMaker::dealt)
    return std::make_unique<DealtMatrices>(context, params);
  return std::make_unique<HostShards>(context, params);
}

}  // namespace shardmark
