// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/core.h>

#include <core/plan/deepspeed/stage3/leaf_modules.hpp>
#include <core/plan/deepspeed/stage3/param_coordinator.hpp>

namespace shardmark {
namespace {
constexpr std::int64_t never = std::numeric_limits<std::int64_t>::min();
}

Coordinator::Coordinator(const ModelShape& model, const ZeroKnobs& knobs)
    : model_(&model),
      knobs_(&knobs),
      leaves_(leaves_of(model, knobs.leaves)),
      persists_(model.params.size()),
      status_(model.params.size(), Status::absent),
      handle_(model.params.size(), -1),
      active_(model.params.size()),
      recomputed_(model.modules.size()),
      fetched_for_(model.params.size(), never) {
  params_ = params_by_module(model);
  if (has_leaves()) {
    const std::vector<std::vector<int>> inside = params_inside(model);
    for (std::size_t m = 0; m < params_.size(); ++m)
      if (leaves_[m] == static_cast<int>(m)) params_[m] = inside[m];
  }
  std::int64_t total = 0;
  for (int p = 0; p < static_cast<int>(model.params.size()); ++p) {
    const std::int64_t elems = model.params[p].elems;
    if (elems > knobs.model_persistence_threshold - total) continue;
    if (elems > knobs.param_persistence_threshold) continue;
    persists_[p] = true;
    persistent_.push_back(p);
    total += elems;
  }
}

void Coordinator::begin_pass(FetchActions& actions) {
  drop_in_flight(actions);
  if (trace_ != Trace::complete) {
    actions.compare_lists(static_cast<std::int64_t>(modules_.size()));
    if (trace_ == Trace::recording) {
      finish_recording();
      for (int i = 0; i < 2; ++i)  // parameters, and the steps that use them
        actions.compare_lists(static_cast<std::int64_t>(uses_.size()));
    } else {
      trace_ = Trace::recording;
    }
  }
  queue_ = 0;
  step_ = 0;
  available_elems_ = 0;
  std::fill(fetched_for_.begin(), fetched_for_.end(), never);
}

void Coordinator::finish_recording() {
  for (std::size_t i = 0; i < modules_.size(); ++i)
    for (int p : params_[modules_[i]]) uses_.push_back({p, static_cast<std::int64_t>(i)});
  reuse_ = reuse_of(params_by_module(*model_));
  if (has_leaves()) reuse_of_leaves_ = reuse_of(params_inside(*model_));
  trace_ = Trace::complete;
}

Coordinator::Reuse Coordinator::reuse_of(const std::vector<std::vector<int>>& params) const {
  Reuse reuse{{}, std::vector<std::vector<std::int64_t>>(model_->params.size())};
  std::int64_t elems = 0;
  for (std::size_t i = 0; i < modules_.size(); ++i) {
    reuse.elems_before.push_back(elems);
    for (int p : params[static_cast<std::size_t>(modules_[i])]) {
      reuse.steps_of[static_cast<std::size_t>(p)].push_back(static_cast<std::int64_t>(i));
      elems += model_->params[p].elems;
    }
  }
  return reuse;
}

void Coordinator::visit(const Visit& visit, FetchActions& actions) {
  const int leaf = leaf_of(visit.module);
  if (leaf >= 0 && leaf != visit.module) return;
  switch (visit.kind) {
    case VisitKind::pre_forward: return fetch_module(visit.module, true, actions);
    case VisitKind::pre_backward: return fetch_module(visit.module, false, actions);
    case VisitKind::post_forward: return release_module(visit.module, true, actions);
    case VisitKind::post_backward: break;
  }
  // The module around attention gets its inputs as keywords, which DeepSpeed's hooks do not see.
  if (model_->modules[static_cast<std::size_t>(visit.module)].role != Role::sinks)
    release_module(visit.module, false, actions);
}

void Coordinator::fetch_module(int module, bool forward, FetchActions& actions) {
  if (trace_ == Trace::recording) modules_.push_back(module);
  if (!forward && std::ranges::find(in_backward_, module) == in_backward_.end())
    in_backward_.push_back(module);
  // DeepSpeed notices in the first forward pass that a module reads a parameter of another one.
  static const std::vector<int> unknown;
  const bool reads = model_->modules[static_cast<std::size_t>(module)].reads_param >= 0;
  const bool first = trace_ == Trace::recording && forward && in_backward_.empty();
  const std::vector<int>& params = reads && first ? unknown : params_[module];
  gather(params, actions);
  for (int p : params) {
    active_[p].insert(module);
    if (forward && !in_backward_.empty() && !model_->params[p].updated()) {
      active_[p].insert(in_backward_.back());
      recomputed_[in_backward_.back()].insert(p);
    }
    if (status_[p] == Status::in_flight) arrive(p, actions);
  }
  if (trace_ == Trace::complete) {
    skip_queue(params);
    prefetch(actions);
  }
  ++step_;
}

void Coordinator::gather(std::vector<int> params, FetchActions& actions) {
  std::erase_if(params, [&](int p) { return status_[p] != Status::absent; });
  if (params.empty()) return;
  std::ranges::sort(params);
  const auto others = std::stable_partition(params.begin(), params.end(),
                                            [&](int p) { return actions.has_secondary(p); });
  for (const std::vector<int>& together :
       {std::vector<int>(params.begin(), others), std::vector<int>(others, params.end())}) {
    if (together.empty()) continue;
    for (int p : together) {
      status_[p] = Status::in_flight;
      handle_[p] = static_cast<int>(handles_.size());
      available_elems_ += model_->params[p].elems;
      in_flight_elems_ += model_->params[p].elems;
    }
    handles_.push_back(together);
    actions.fetch(together);
  }
}

void Coordinator::arrive(int param, FetchActions& actions) {
  const std::vector<int> together = handles_[handle_[param]];
  for (int p : together) {
    status_[p] = Status::available;
    in_flight_elems_ -= model_->params[p].elems;
  }
  actions.arrive(together);
}

// Removes this module's parameters from the queue of future uses, unless a prefetch has done so.
void Coordinator::skip_queue(const std::vector<int>& params) {
  std::size_t wanted = 0;
  for (int p : params) wanted += fetched_for_[p] < step_ ? 1 : 0;
  std::set<int> skipped;
  while (queue_ < uses_.size() && skipped.size() < wanted) {
    const Use& use = uses_[queue_++];
    fetched_for_[use.param] = use.step;
    skipped.insert(use.param);
  }
}

void Coordinator::prefetch(FetchActions& actions) {
  if (knobs_->prefetch_bucket_size <= 0) return;
  const std::int64_t most =
      std::min(knobs_->max_live_parameters - available_elems_, knobs_->prefetch_bucket_size);
  std::vector<int> params;
  std::set<int> chosen;  // the same
  std::int64_t elems = 0;
  while (queue_ < uses_.size() && elems < most) {
    const Use& use = uses_[queue_];
    if (actions.on_disk(use.param)) break;  // it must be read first, and is gathered in its turn
    ++queue_;
    fetched_for_[use.param] = std::max(fetched_for_[use.param], use.step);
    const bool absent = status_[use.param] == Status::absent;
    if (!absent || !chosen.insert(use.param).second) continue;
    params.push_back(use.param);
    elems += model_->params[use.param].elems;
  }
  gather(std::move(params), actions);
  read_ahead(actions);
}

// Reads shards of later parameters, up to twice as many elements as are being gathered.
void Coordinator::read_ahead(FetchActions& actions) {
  const int room = actions.room_to_read();
  std::int64_t considered = 0;
  std::vector<int> params;
  std::set<int> chosen;  // the same
  for (std::size_t q = queue_; q < uses_.size(); ++q) {
    if (considered > 2 * in_flight_elems_ || static_cast<int>(params.size()) >= room) break;
    const int p = uses_[q].param;
    if (actions.on_disk(p) && chosen.insert(p).second) params.push_back(p);
    considered += model_->params[p].elems;
  }
  if (!params.empty()) actions.read_ahead(params);
}

std::set<int>& Coordinator::to_release(int module) {
  const auto [it, fresh] = release_cache_.try_emplace({module, step_});
  std::set<int>& list = it->second;
  if (!fresh) return list;
  for (int p : params_[module])
    if (!persists_[p] && fetched_for_[p] <= step_)
      list.insert(p);  // otherwise a prefetch relies on it
  // Of a module that follows within max_reuse_distance elements the parameters stay.
  const Reuse& reuse = leaf_of(module) == module ? reuse_of_leaves_ : reuse_;
  std::erase_if(list, [&](int p) {
    const std::vector<std::int64_t>& steps = reuse.steps_of[p];
    const auto next = std::lower_bound(steps.begin(), steps.end(), step_);
    return next != steps.end() &&
           reuse.elems_before[*next] - reuse.elems_before[step_] < knobs_->max_reuse_distance;
  });
  return list;
}

void Coordinator::release_module(int module, bool forward, FetchActions& actions) {
  const bool known = trace_ == Trace::complete;
  std::set<int>* const list = known ? &to_release(module) : nullptr;
  if (!forward) {
    std::erase(in_backward_, module);
    for (int p : std::exchange(recomputed_[module], {})) {
      active_[p].erase(module);
      if (persists_[p]) continue;
      if (known) list->insert(p);  // DeepSpeed, too, adds to the decision that it has cached
      release(p, actions);
    }
  }
  for (int p : params_[module]) {
    active_[p].erase(module);
    if (!known || list->contains(p)) release(p, actions);
  }
}

void Coordinator::release(int param, FetchActions& actions) {
  if (status_[param] != Status::available || !active_[param].empty()) return;
  status_[param] = Status::absent;
  available_elems_ -= model_->params[param].elems;
  actions.release(param);
}

void Coordinator::end_pass(FetchActions& actions) {
  while (!in_backward_.empty()) {
    const int module = in_backward_.back();
    in_backward_.pop_back();
    std::set<int> params = std::exchange(recomputed_[module], {});
    params.insert(params_[module].begin(), params_[module].end());
    for (int p : params) {
      active_[p].erase(module);
      if (!persists_[p]) release(p, actions);
    }
  }
}

void Coordinator::drop_in_flight(FetchActions& actions) {
  std::set<int> dropped;
  for (int p = 0; p < static_cast<int>(status_.size()); ++p) {
    if (status_[p] == Status::in_flight) {
      arrive(p, actions);
      for (int q : handles_[handle_[p]]) dropped.insert(q);
    }
  }
  for (int p : dropped) release(p, actions);
  handles_.clear();
}

void Coordinator::release_all(FetchActions& actions) {
  drop_in_flight(actions);
  for (int p = 0; p < static_cast<int>(status_.size()); ++p) {
    active_[p].clear();
    release(p, actions);
  }
}

void Coordinator::gathered_persistent() {
  for (int p : persistent_) status_[p] = Status::available;
}

std::string Coordinator::key() const {
  std::string text = fmt::format("{}:", static_cast<int>(trace_));
  for (std::size_t p = 0; p < status_.size(); ++p)
    if (status_[p] != Status::absent) text += fmt::format("{},", p);
  // A digest of the cached decisions; 0 if there are none.
  std::uint64_t digest = 0;
  for (const auto& [at, list] : release_cache_)
    for (int p : list)
      digest = (digest ^ static_cast<std::uint64_t>(at.second * 1000003 +
                                                    std::int64_t{at.first} * 8191 + p + 1)) *
               1099511628211ULL;
  return text + fmt::format("{}:{}", release_cache_.size(), digest);
}

}  // namespace shardmark
