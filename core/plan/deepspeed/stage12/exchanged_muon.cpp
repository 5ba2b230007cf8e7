// SPDX-License-Identifier: Apache-2.0
// Muon in DeepSpeed's BF16_Optimizer. Every rank has the whole fp32 gradients, but only its
// partition of the momentum. In each step one all_to_all gives each rank the rest of the momentum
// of matrices that it shares with others. It makes the updates of the matrices that its partition
// touches, one after the other, from clipped gradients, and applies its own slices.
//
// Source: DeepSpeed 0.19.8's runtime/bf16_optimizer.py, _build_muon_exchange_layout and
// _prepare_muon_updates.
#include <algorithm>
#include <numeric>

#include <core/plan/deepspeed/muon_buffers.hpp>
#include <core/plan/deepspeed/stage12/flat_muon.hpp>
#include <core/plan/write/state_writer.hpp>

namespace shardmark {
namespace {

class ExchangedMomentum final : public Muon {
 public:
  ExchangedMomentum(StageContext& context, const FlatStates& states, const std::vector<int>& grads)
      : Muon(context, muon_placement(context.stage(), false, true)),
        states_(states),
        whole_(grads),
        groups_(states.groups().size()),
        whole_grads_(w_),
        whole_momenta_(w_) {}

  void init() override {
    std::vector<int> matrices;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (!states_.has_matrices(g)) continue;
      const FlatGroup& group = states_.groups()[g];
      for (const int id : group.params)
        if (states_.owns(id)) matrices.push_back(id);
      matrices_.push_back(g);
      const int momentum = groups_[g].momentum =
          w_.slot("momentum" + states_.suffix(g), Category::momentum, Dtype::fp32, group.partition);
      place_state(c_.program, State::momentum, momentum, 0, group.layout, states_.own_first(g),
                  group.partition);
      acquire_zeroed(w_, momentum);
      find_parts(g);
    }
    orthogonalizer_.declare(matrices);
  }

 private:
  struct Group {
    int momentum = no_slot;                   // this rank's partition
    int sent = no_slot, received = no_slot;   // parts of others' matrices, and of this rank's
    std::vector<std::int64_t> to, from;       // how much each rank is sent, and sends
    std::vector<std::pair<int, int>> shared;  // other ranks, and the matrices shared with them
    std::int64_t largest_part = 0;            // that any two ranks exchange; 0 if nothing is shared
  };
  bool exchanges(std::size_t g) const { return groups_[g].largest_part > 0; }
  std::size_t group_of(int id) const {
    return static_cast<std::size_t>(states_.flat().group_of(id));
  }
  // Where the owned slice of a matrix begins in this rank's partition.
  std::int64_t at(std::size_t g, int id) const {
    return states_.flat().offset_of(id) + states_.owned(id).first - states_.own_first(g);
  }
  // Partitions follow each other, so two ranks share at most one matrix, and what a rank sends to
  // another one is its slice of that matrix.
  void find_parts(std::size_t g) {
    Group& group = groups_[g];
    const auto world = static_cast<std::size_t>(c_.world());
    group.to.assign(world, 0), group.from.assign(world, 0);
    for (const int id : states_.groups()[g].params) {
      const std::vector<OwnedSlice> owners = states_.flat().owners(id);
      if (owners.size() < 2) continue;
      for (const OwnedSlice& slice : owners) {
        group.largest_part = std::max(group.largest_part, slice.elems);
        if (!states_.owns(id) || slice.rank == c_.program.partition_rank()) continue;
        group.to[static_cast<std::size_t>(slice.rank)] += states_.owned(id).elems;
        group.from[static_cast<std::size_t>(slice.rank)] += slice.elems;
        group.shared.emplace_back(slice.rank, id);
      }
    }
    if (group.largest_part == 0) return;
    std::ranges::stable_sort(group.shared, {}, &std::pair<int, int>::first);
    const auto buffer = [&](const char* name, const std::vector<std::int64_t>& counts) {
      return w_.slot(name + states_.suffix(g), Category::bucket, Dtype::fp32,
                     std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
    };
    group.sent = buffer("muon_sent", group.to);
    group.received = buffer("muon_received", group.from);
  }

  void exchange(std::size_t g) {
    const Group& group = groups_[g];
    for (const int slot : {group.received, group.sent}) w_.acquire(slot);
    std::int64_t end = 0;
    for (const auto& [rank, id] : group.shared) {
      const std::int64_t elems = states_.owned(id).elems;
      w_.convert(w_.write(group.sent, end, elems), w_.read(group.momentum, at(g, id), elems));
      end += elems;
    }
    w_.exchange(w_.read(group.sent), w_.write(group.received), group.to, group.from,
                group.largest_part, states_.groups()[g].params);
    w_.release(group.sent);
  }

  std::size_t batches() const override { return matrices_.size(); }

  Matrices gather(std::size_t batch) override {
    const std::size_t g = matrices_[batch];
    if (exchanges(g)) exchange(g);
    Matrices list;
    for (const int id : states_.groups()[g].params)
      if (states_.owns(id)) list.push_back({id});
    return list;
  }
  void scatter(std::size_t batch, const Matrices&) override {
    const std::size_t g = matrices_[batch];
    if (exchanges(g)) w_.release(groups_[g].received);
  }

  // This rank's and the received parts of a matrix's momentum.
  void assemble(std::size_t g, int id, int whole) {
    const Group& group = groups_[g];
    const auto begin = group.from.begin();
    const OwnedSlice own = states_.owned(id);
    w_.convert(w_.write(whole, own.first, own.elems),
               w_.read(group.momentum, at(g, id), own.elems));
    for (const OwnedSlice& slice : states_.flat().owners(id)) {
      if (slice.rank == c_.program.partition_rank()) continue;
      const std::int64_t from = std::accumulate(begin, begin + slice.rank, std::int64_t{0});
      w_.convert(w_.write(whole, slice.first, slice.elems),
                 w_.read(group.received, from, slice.elems));
    }
  }

  void before(Matrix& m) override {
    const std::size_t g = group_of(m.id);
    const std::int64_t elems = c_.elems(m.id);
    if (states_.flat().owners(m.id).size() > 1) {
      m.momentum = w_.update(whole_momenta_.whole("whole_momentum", elems));
      w_.acquire(m.momentum.slot);
      assemble(g, m.id, m.momentum.slot);
    } else {
      m.momentum = w_.update(groups_[g].momentum, at(g, m.id), states_.owned(m.id).elems);
    }
    m.grad = w_.update(whole_grads_.whole("whole_gradient", elems));
    w_.acquire(m.grad.slot);
    w_.convert(w_.write(m.grad.slot), w_.read(whole_[g], states_.flat().offset_of(m.id), elems));
    scalars_.clip_gradient(m.grad);
  }

  void after(const Matrix& m) override {
    const std::size_t g = group_of(m.id);
    const OwnedSlice own = states_.owned(m.id);
    const auto take = [&](int into, std::int64_t place, int whole) {
      w_.convert(w_.write(into, place, own.elems), w_.read(whole, own.first, own.elems));
      w_.release(whole);
    };
    take(whole_[g], states_.flat().offset_of(m.id) + own.first, m.grad.slot);
    const int momentum = groups_[g].momentum;
    if (m.momentum.slot != momentum) take(momentum, at(g, m.id), m.momentum.slot);
  }

  const FlatStates& states_;
  const std::vector<int>& whole_;  // by group: the gradients
  std::vector<Group> groups_;
  std::vector<std::size_t> matrices_;       // groups that have matrices
  SizedSlots whole_grads_, whole_momenta_;  // of one matrix at a time
};

}  // namespace

std::unique_ptr<Muon> muon_of_exchanged_momentum(StageContext& context, const FlatStates& states,
                                                 const std::vector<int>& grads) {
  return std::make_unique<ExchangedMomentum>(context, states, grads);
}

}  // namespace shardmark
