// SPDX-License-Identifier: Apache-2.0
// DistributedDataParallel: all ranks hold all states. Gradients are reduced in buckets while
// backward still runs. Until PyTorch has seen in which order gradients become ready there is one
// bucket (see ddp_buckets.hpp); then rank 0 tells the others its order, and buckets are made anew.
//
// With ZeroRedundancyOptimizer each rank keeps the optimizer states of some tensors, updates those,
// and broadcasts each of them.
#include <algorithm>
#include <numeric>

#include <fmt/core.h>

#include <core/error.hpp>
#include <core/plan/torch/ddp_reducer.hpp>
#include <core/plan/torch/torch_scalars.hpp>
#include <core/plan/torch/torch_schedule.hpp>
#include <core/plan/write/rank_groups.hpp>
#include <core/plan/write/state_slots.hpp>
#include <core/plan/write/state_writer.hpp>

namespace shardmark {
namespace {

class DdpSchedule final : public StepSchedule {
 public:
  DdpSchedule(Program& program, const Deck& deck, const Profile& profile)
      : c_(program, deck, profile),
        reducer_(c_),
        scalars_(c_, Tier::device),
        ready_place_(p_.model.params.size()) {
    declare();
    const std::vector<int> order = torch_ready_order(p_.model);
    for (std::size_t i = 0; i < order.size(); ++i) ready_place_[order[i]] = i;
  }

  ScheduleContext& context() override { return c_; }

 private:
  bool shards() const { return p_.stage == 1; }
  const Param& param(int id) const { return p_.model.params[id]; }
  // Whether this rank updates a parameter.
  bool owns(int id) const { return !shards() || owners_.rank_of[id] == p_.partition_rank(); }
  Gradients between_micros() const override {
    return c_.spec.no_sync ? Gradients::accumulated : Gradients::reduced;
  }
  int special_steps() const override { return reducer_.special_steps(); }
  int special_micros() const override { return c_.spec.no_sync ? 1 : 4; }

  void declare() {
    param_ = w_.slot("param", Category::param, Dtype::fp32, p_.model.elems);
    owners_ = zero_owners(p_.model, c_.flow.needing(), p_.partition_ranks());
    state_at_.resize(p_.model.params.size());
    std::int64_t held = 0, steps = 0;
    for (const int id : c_.flow.needing()) {
      if (!param(id).trained() || !owns(id)) continue;
      state_at_[id] = held;
      held += param(id).elems;
      steps += traits(c_.optimizer).counts_steps ? 1 : 0;
    }
    states_ = StateSlots(
        c_.optimizer,
        [&](std::string_view name, Category category) {
          return w_.slot(std::string(name), category, Dtype::fp32, held);
        },
        param_);
    steps_ = w_.slot("optimizer_steps", Category::workspace, Dtype::fp32, steps, Tier::host,
                     "optimizer_steps");
    c_.collectives.declare();
    p_.partition.padded = p_.model.elems;
    p_.partition.per_rank = shards() ? held : p_.model.elems;
  }

  void init() override {
    p_.sharded = {false, shards(), shards(), shards()};
    const std::size_t first_piece = p_.states.size();
    for (std::size_t id = 0; id < p_.model.params.size(); ++id) place(static_cast<int>(id));
    w_.acquire(param_);
    init_params(w_, p_, param_, first_piece);
    c_.collectives.acquire();
    c_.compute.acquire_persistent();
    if (c_.spec.init_sync) synchronise();
    states_.begin_moments(w_);
    acquire_zeroed(w_, steps_);
    reducer_.init();
  }

  void place(int id) {
    const Param& p = param(id);
    p_.states.push_back({State::param, param_, p.first_elem, p.first_elem, p.elems});
    const FlatParam alone{id, 0};
    if (!p.trained())
      p_.states.push_back({State::master, param_, p.first_elem, p.first_elem, p.elems});
    else if (owns(id))
      states_.place(p_, p.first_elem, state_at_[id], {&alone, 1}, 0, p.elems);
  }

  // Ranks compare the number and the shapes of parameters, and take the values of rank 0.
  void synchronise() {
    write_integers(w_, p_, "count.words", Dtype::int64, Op::all_gather, p_.partition_ranks());
    std::int64_t words = 0;  // sizes and strides
    for (const int id : c_.flow.needing())
      words += 2 * static_cast<std::int64_t>(param(id).shape.size());
    write_integers(w_, p_, "shapes.words", Dtype::int64, Op::broadcast, words);
    constexpr std::int64_t most_bytes = std::int64_t{250} << 20;
    std::vector<int> all(p_.model.params.size());
    std::iota(all.begin(), all.end(), 0);
    for (const std::vector<int>& piece :
         cut_into_buckets(p_.model, all, {most_bytes}, dtype_bytes(Dtype::fp32))) {
      const std::int64_t first = param(piece.front()).first_elem;
      const std::int64_t elems = param(piece.back()).first_elem + param(piece.back()).elems - first;
      c_.collectives.issue(Op::broadcast, Reduction::none, w_.read(param_, first, elems),
                           w_.write(param_, first, elems), {}, 0);
    }
  }

  Operand whole_param(int id) const override {
    return w_.read(param_, param(id).first_elem, param(id).elems);
  }

  void forward(const MicroBatch& micro) override {
    reducer_.begin_forward();
    StepSchedule::forward(micro);
  }

  void begin_backward(const MicroBatch& micro) override {
    reducer_.begin_backward(micro);
    uses_.assign(p_.model.params.size(), 0);
    for (const int m : p_.model.computing(VisitKind::pre_backward))
      for (const int id : p_.model.params_of(m)) ++uses_[id];
    begun_.assign(p_.model.params.size(), false);
  }

  void backward(const MicroBatch& micro) override {
    StepSchedule::backward(micro);
    reducer_.end_backward();
  }

  bool reaches(int module) const override { return c_.flow.outputs[module]; }
  void backward_module(int module, const MicroBatch&) override {
    std::vector<int> ids = p_.model.params_of(module);
    std::vector<Operand> grads;
    for (const int id : ids) {
      if (!param(id).trained()) continue;
      grads.push_back(reducer_.gradient(id, begun_[id]));
      begun_[id] = true;
    }
    c_.compute.backward(module, places(), grads);
    std::ranges::sort(ids, {}, [&](int id) { return ready_place_[id]; });
    for (const int id : ids)
      if (--uses_[id] == 0 && param(id).trained()) reducer_.ready(id);
  }

  // Gradients are the same on all ranks, so is their norm.
  void boundary() override {
    std::vector<Operand> grads;
    for (const int id : c_.flow.needing())
      if (param(id).trained()) grads.push_back(reducer_.reduced(id));
    scalars_.norm(grads, no_group, 0);
  }

  void update() override {
    std::vector<int> own, others;
    for (const int id : c_.flow.needing())
      if (param(id).trained()) (owns(id) ? own : others).push_back(id);
    // The gradients of what other ranks update are used up here, too.
    if (own.empty()) update_tensor(others.front(), 0, others);
    for (const int id : own) {
      std::vector<int> ids{id};
      if (id == own.front()) ids.insert(ids.end(), others.begin(), others.end());
      update_tensor(id, param(id).elems, ids);
    }
    if (shards()) send_updates();
    reducer_.release();
    scalars_.release();
  }

  void update_tensor(int id, std::int64_t elems, const std::vector<int>& ids) {
    Operand grad = reducer_.reduced(id);
    grad.elems = elems;
    write_update(w_, c_.optimizer,
                 states_.part(w_, param(id).first_elem, state_at_[id], elems, grad),
                 scalars_.clip(), ids);
  }

  // ZeroRedundancyOptimizer: each rank sends what it has updated, tensor by tensor or as one
  // bucket.
  void send_updates() {
    for (int rank = 0; rank < p_.partition_ranks(); ++rank) {
      std::vector<int> ids;
      for (const int id : owners_.order)
        if (owners_.rank_of[id] == rank) ids.push_back(id);
      if (c_.spec.parameters_as_bucket_view && !ids.empty())
        send_bucket(rank, ids);
      else
        for (const int id : ids) send(param(id).first_elem, param(id).elems, rank, param_);
    }
  }

  void send(std::int64_t first, std::int64_t elems, int rank, int slot) {
    c_.collectives.issue(Op::broadcast, Reduction::none, w_.read(slot, first, elems),
                         w_.write(slot, first, elems), {}, rank);
  }

  // PyTorch keeps parameters in their buckets. Here they lie in registration order, so they are
  // copied into a bucket and back.
  void send_bucket(int rank, const std::vector<int>& ids) {
    std::int64_t elems = 0;
    for (const int id : ids) elems += param(id).elems;
    const int slot =
        w_.slot(fmt::format("update{}.{}", rank, updates_++), Category::bucket, Dtype::fp32, elems);
    w_.acquire(slot);
    for (const bool back : {false, true}) {
      std::int64_t at = 0;
      for (const int id : ids) {
        const Operand mine = w_.part(param_, param(id).first_elem, param(id).elems, !back, back);
        const Operand sent = w_.part(slot, at, param(id).elems, back, !back);
        w_.convert(back ? mine : sent, back ? sent : mine);
        at += param(id).elems;
      }
      if (!back) send(0, elems, rank, slot);
    }
    w_.release(slot);
  }

  TorchContext c_;
  Program& p_ = c_.program;
  PlanWriter& w_ = c_.writer;
  DdpReducer reducer_;
  TorchScalars scalars_;
  StateSlots states_;
  ZeroOwners owners_;
  std::vector<std::int64_t> state_at_;  // by parameter: in the slots of moments
  int param_ = no_slot, steps_ = no_slot;
  // By parameter: its place in the order in which gradients become ready, and in this backward how
  // many modules still have to use it, of which a tied one has several, and whether it has begun.
  std::vector<std::size_t> ready_place_;
  std::vector<int> uses_;
  std::vector<bool> begun_;
  int updates_ = 0;  // numbers buckets of updates
};

}  // namespace

void write_ddp(Program& program, const Deck& deck, const Profile& profile) {
  if (program.precision.computes_in() != Dtype::fp32)
    throw DeckError(fmt::format(
        "{}: torch.mp_policy.param_dtype = {}: is an argument of fully_shard, at stages 2 and 3; "
        "stage {} is DistributedDataParallel, which is modelled in fp32",
        deck.path, to_string(program.precision.computes_in()), program.stage));
  write_steps(DdpSchedule(program, deck, profile));
}

}  // namespace shardmark
