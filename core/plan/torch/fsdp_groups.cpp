// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>

#include <fmt/core.h>

#include <core/error.hpp>
#include <core/plan/deck/checked.hpp>
#include <core/plan/torch/fsdp_groups.hpp>
#include <core/plan/torch/gradient_flow.hpp>

namespace shardmark {
namespace {

// The elements of a ModuleList are called "h.0", "h.1" …
bool is_numbered(const std::string& name) {
  const auto dot = name.rfind('.');
  return dot != std::string::npos && dot + 1 < name.size() &&
         std::all_of(name.begin() + static_cast<std::ptrdiff_t>(dot) + 1, name.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0; });
}

// What a script calls fully_shard on if it follows PyTorch's tutorial: each block, then the root.
std::vector<std::vector<int>> default_calls(const ModelShape& model) {
  std::vector<std::vector<int>> calls;
  const bool list = model.spec.family == Family::list;
  int last = 0;
  for (std::size_t m = 1; m < model.modules.size(); ++m) {
    const Module& module = model.modules[m];
    const bool block = list ? is_numbered(module.name) : module.block;
    if (!block || (last > 0 && lies_in(model, static_cast<int>(m), last))) continue;
    last = static_cast<int>(m);
    calls.push_back({last});
  }
  calls.push_back({0});
  return calls;
}

std::vector<std::vector<int>> calls_of(const ModelShape& model, const TorchSpec& spec,
                                       const std::string& key) {
  if (spec.fully_shard.empty()) return default_calls(model);
  std::vector<std::vector<int>> calls;
  std::vector<bool> seen(model.modules.size());
  for (const auto& names : spec.fully_shard) {
    std::vector<int>& modules = calls.emplace_back();
    for (const std::string& name : names) {
      const int m = module_named(model, name, key);
      if (seen[m])
        throw DeckError(
            fmt::format("{} = \"{}\": this module is named twice: name it once", key, name));
      seen[m] = true;
      modules.push_back(m);
    }
  }
  if (calls.back() != std::vector{0})
    throw DeckError(key + ": must end with \"\", the root, which takes the rest: add it");
  return calls;
}

// Takes parameters one by one as the calls reach them.
class GroupBuilder {
 public:
  GroupBuilder(const ModelShape& model, const TorchSpec& spec, int ranks, int rank, std::string key)
      : model_(model),
        spec_(spec),
        ranks_(ranks),
        rank_(rank),
        key_(std::move(key)),
        taken_(model.modules.size()),
        group_of_(model.params.size(), -1) {}

  std::vector<FsdpGroup> build() {
    for (const std::vector<int>& call : calls_of(model_, spec_, key_)) {
      FsdpGroup group;
      group.modules = call;
      group.is_root = call.front() == 0;
      group.name = group.is_root ? "root" : model_.modules[call.front()].name;
      for (int top : call)
        for (std::size_t m = 0; m < model_.modules.size(); ++m)
          if (!taken_[m] && lies_in(model_, static_cast<int>(m), top))
            take(group, static_cast<int>(m));
      if (!group.params.empty()) groups_.push_back(std::move(group));
    }
    return std::move(groups_);
  }

 private:
  void take(FsdpGroup& group, int module) {
    taken_[module] = true;
    const auto own = static_cast<int>(groups_.size());
    for (int id : model_.params_of(module)) {
      if (group_of_[id] == own) continue;  // a tied parameter is taken once
      if (group_of_[id] >= 0)
        throw DeckError(fmt::format(
            "{}: {} belongs to the groups of \"{}\" and of \"{}\", because it is tied: put both "
            "modules into one call, or leave both to the root",
            key_, model_.params[id].name, groups_[group_of_[id]].name, group.name));
      group_of_[id] = own;
      add(group, id);
    }
  }

  void add(FsdpGroup& group, int id) {
    const Param& p = model_.params[id];
    FsdpParam f{.id = id};
    f.shard = shard_of(p);
    f.first = std::min(p.elems, f.shard * rank_);
    f.held = std::min(f.shard, p.elems - f.first);
    f.at = group.row;
    group.row = checked_add(group.row, f.shard, "torch.fully_shard");
    (void)checked_mul(group.row, ranks_, "torch.fully_shard");
    if (p.trained()) {
      f.grad = group.grad_row;
      f.state = group.held_trained;
      group.grad_row += f.shard;
      group.held_trained += f.held;
    }
    group.held += f.held;
    group.params.push_back(f);
  }

  // Along another dimension than the first one, a rank holds as many elements as it does here, but
  // others. That changes no message and no sum.
  std::int64_t shard_of(const Param& p) const {
    if (spec_.shard_dim == 0 || static_cast<std::size_t>(spec_.shard_dim) >= p.shape.size()) {
      const std::int64_t rows = p.shape.front();
      return (rows + ranks_ - 1) / ranks_ * (p.elems / rows);
    }
    const std::int64_t size = p.shape[spec_.shard_dim];
    if (size % ranks_ != 0)
      throw DeckError(
          fmt::format("torch.shard_placement_fn = {}: {} has {} elements along this dimension: "
                      "must be a multiple of "
                      "the {} ranks that share it: choose dimension 0, which is padded",
                      spec_.shard_dim, p.name, size, ranks_));
    return p.elems / ranks_;
  }

  const ModelShape& model_;
  const TorchSpec& spec_;
  const int ranks_, rank_;
  const std::string key_;
  std::vector<bool> taken_;    // modules
  std::vector<int> group_of_;  // by parameter
  std::vector<FsdpGroup> groups_;
};

}  // namespace

std::vector<int> FsdpGroup::trained() const {
  std::vector<int> ids;
  for (const FsdpParam& p : params)
    if (p.grad >= 0) ids.push_back(p.id);
  return ids;
}

std::vector<FsdpGroup> fsdp_groups(const ModelShape& model, const TorchSpec& spec, int shard_ranks,
                                   int shard_rank, const std::string& deck_path) {
  return GroupBuilder(model, spec, shard_ranks, shard_rank, deck_path + ": torch.fully_shard")
      .build();
}

}  // namespace shardmark
