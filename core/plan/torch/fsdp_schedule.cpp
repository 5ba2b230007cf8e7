// SPDX-License-Identifier: Apache-2.0
// `fully_shard` (FSDP2): groups of parameters are gathered right before the forward and the
// backward of their modules, and their gradients are reduced right after it. In backward the group
// before the present one is gathered ahead of its use.
//
// The hooks of fully_shard, in the order in which autograd calls them, which ModelShape::visits and
// GradientFlow give.
//
// Source: torch 2.15, _fsdp_state.py and _fsdp_param_group.py.
#include <algorithm>

#include <core/error.hpp>
#include <core/plan/torch/fsdp_gradients.hpp>
#include <core/plan/torch/fsdp_updates.hpp>
#include <core/plan/torch/torch_schedule.hpp>

namespace shardmark {
namespace {

class FsdpSchedule final : public StepSchedule {
 public:
  FsdpSchedule(Program& program, const Deck& deck, const Profile& profile)
      : c_(program, deck, profile), params_(c_), grads_(c_, params_), updates_(c_) {
    hooks_.resize(c_.groups.size());
    find_calls();
    find_finalizing_order();
  }

  ScheduleContext& context() override { return c_; }

 private:
  // What one group's hooks know.
  struct Hooks {
    std::vector<int> forward_places;  // in post_forward_order_, of calls whose backward is to come
    bool in_backward = false, done = false;
  };

  Gradients between_micros() const override {
    if (p_.partition_ranks() == 1) return Gradients::reduced;
    const bool all =
        c_.spec.requires_gradient_sync && (c_.spec.requires_all_reduce || !c_.replicates());
    return all ? Gradients::reduced : Gradients::accumulated;
  }

  void init() override { updates_.init(); }

  // The modules of each group that run: its hooks are on the input of the first one and on the
  // output of the last one.
  void find_calls() {
    std::vector<int> group_of(p_.model.modules.size(), -1), last(hooks_.size(), -1);
    begins_ = ends_ = group_of;
    for (std::size_t g = 0; g < hooks_.size(); ++g)
      for (const int m : c_.groups[g].modules) group_of[m] = static_cast<int>(g);
    for (const Visit& v : forward_visits(p_.model)) {
      const int g = group_of[v.module];
      if (g < 0) continue;
      if (v.kind == VisitKind::post_forward) last[g] = v.module;
      if (v.kind == VisitKind::post_forward || contains(forward_order_, g)) continue;
      begins_[v.module] = g;
      forward_order_.push_back(g);
    }
    for (std::size_t g = 0; g < hooks_.size(); ++g)
      if (last[g] >= 0) ends_[last[g]] = static_cast<int>(g);
    for (std::size_t m = 0; m < p_.model.modules.size(); ++m)
      for (const int id : p_.model.params_of(static_cast<int>(m)))
        if (c_.flow.visited[m] && last[c_.place_of[id].group] < 0)
          throw DeckError("model.visits: \"" + p_.model.modules[m].name +
                          "\" runs, but not the module of torch.fully_shard that gathers its "
                          "parameters: add the visits of \"" +
                          c_.groups[c_.place_of[id].group].name + "\"");
  }
  static bool contains(const std::vector<int>& list, int value) {
    return std::ranges::find(list, value) != list.end();
  }

  // The end of backward goes through the groups as named_modules() lists their modules.
  void find_finalizing_order() {
    for (std::size_t g = 0; g < hooks_.size(); ++g)
      finalizing_order_.push_back(static_cast<int>(g));
    const auto first = [&](int g) { return *std::ranges::min_element(c_.groups[g].modules); };
    std::ranges::stable_sort(finalizing_order_, {}, first);
  }

  Operand whole_param(int id) const override { return params_.whole(id); }

  void forward(const MicroBatch& micro) override {
    micro_ = micro;
    for (const Visit& v : forward_visits(p_.model)) {
      if (v.kind == VisitKind::pre_forward && begins_[v.module] >= 0)
        pre_forward(begins_[v.module]);
      if (v.kind == VisitKind::post_forward && ends_[v.module] >= 0) post_forward(ends_[v.module]);
      if (v.kind != VisitKind::pre_forward) continue;
      for (const int m : p_.model.computed_at(v)) c_.compute.forward(m, places());
    }
    params_.release_kept();
  }

  // On a device the message of the next group is sent while this group computes, because its stream
  // need not wait for the computation. So it is issued here, before this group's modules.
  void pre_forward(int g) {
    params_.unshard(g);
    params_.wait(g, true);
    const auto at = std::ranges::find(forward_order_, g);
    if (at + 1 != forward_order_.end()) params_.unshard(at[1]);
    prefetch(g, c_.spec.forward_prefetch, 1);
  }

  void post_forward(int g) {
    hooks_[g].forward_places.push_back(static_cast<int>(post_forward_order_.size()));
    post_forward_order_.push_back(g);
    if (reshards_after_forward(g)) params_.reshard_after_forward(g);
  }

  bool reshards_after_forward(int g) const {
    if (p_.stage == 2) return false;
    if (c_.spec.reshard_ranks == 1) return false;
    if (c_.spec.reshard_ranks > 1) return true;
    return c_.spec.reshard_after_forward.value_or(!c_.groups[g].is_root);
  }

  // Explicit prefetching: `count` further groups below the root, in the order of the calls or, for
  // backward, against it.
  void prefetch(int g, std::int64_t count, int step) {
    if (c_.groups[g].is_root) return;
    int target = g;
    for (std::int64_t i = 0; i < count; ++i) {
      target += step;
      if (target < 0 || target >= static_cast<int>(c_.groups.size())) return;
      if (!c_.groups[target].is_root) gather_ahead(target, step < 0);
    }
  }

  bool stays_sharded(int g) const {
    const auto& names = c_.spec.stays_sharded_in_backward;
    return std::ranges::any_of(c_.groups[g].modules, [&](int m) {
      return std::ranges::find(names, p_.model.modules[m].name) != names.end();
    });
  }
  void gather_ahead(int g, bool in_backward) {
    if (!in_backward || !stays_sharded(g)) params_.unshard(g);
  }

  void backward(const MicroBatch& micro) override {
    grads_.begin_backward(micro);
    for (Hooks& h : hooks_) h.in_backward = h.done = false;
    for (const Visit& v : backward_visits(p_.model)) visit_backward(v);
    end_backward();
  }

  void visit_backward(const Visit& v) {
    const int begins = begins_[v.module], ends = ends_[v.module];
    if (v.kind == VisitKind::pre_backward && ends >= 0 && c_.flow.outputs[v.module])
      pre_backward(ends);
    if (v.kind == VisitKind::post_backward && begins >= 0 && c_.flow.inputs[v.module])
      post_backward(begins);
    if (v.kind != VisitKind::pre_backward) return;
    for (const int m : p_.model.computed_at(v)) backward_if_reached(m, micro_);
  }
  bool reaches(int module) const override { return c_.flow.outputs[module]; }
  void backward_module(int module, const MicroBatch&) override { grads_.backward(module); }

  void pre_backward(int g) {
    Hooks& h = hooks_[g];
    if (h.in_backward) return;
    h.in_backward = true;
    if (!stays_sharded(g)) params_.unshard(g);
    params_.wait(g, false);
    if (c_.spec.backward_prefetch == 0 || c_.groups[g].is_root)
      prefetch_by_forward_order(g);
    else
      prefetch(g, c_.spec.backward_prefetch, -1);
  }

  // Implicit prefetching: the group whose forward ended before this one's.
  void prefetch_by_forward_order(int g) {
    std::vector<int>& places = hooks_[g].forward_places;
    if (places.empty()) return;
    const int place = places.back();
    places.pop_back();
    if (place > 0) gather_ahead(post_forward_order_[place - 1], true);
  }

  void post_backward(int g) {
    hooks_[g].done = true;
    grads_.post_backward(g, c_.spec.reshard_after_backward || micro_.last);
  }

  // Groups whose inputs need no gradient are reduced here, and so are those of the root.
  void end_backward() {
    for (const int g : finalizing_order_)
      if (!hooks_[g].done) post_backward(g);
    const bool last = c_.spec.is_last_backward || micro_.last;
    grads_.finish(last);
    if (!last) return;
    for (std::size_t g = 0; g < hooks_.size(); ++g) {
      params_.drop_unused_gather(static_cast<int>(g));
      hooks_[g].forward_places.clear();
    }
    post_forward_order_.clear();
  }

  void boundary() override { updates_.boundary(); }
  void update() override { updates_.update(); }

  FsdpContext c_;
  Program& p_ = c_.program;
  PlanWriter& w_ = c_.writer;
  FsdpParams params_;
  FsdpGradients grads_;
  FsdpUpdates updates_;
  MicroBatch micro_;
  std::vector<Hooks> hooks_;           // by group
  std::vector<int> begins_, ends_;     // by module: the group that begins or ends with it, or -1
  std::vector<int> forward_order_;     // groups, as their forward begins
  std::vector<int> finalizing_order_;  // groups
  std::vector<int> post_forward_order_;
};

}  // namespace

void write_fsdp(Program& program, const Deck& deck, const Profile& profile) {
  write_steps(FsdpSchedule(program, deck, profile));
}

}  // namespace shardmark
