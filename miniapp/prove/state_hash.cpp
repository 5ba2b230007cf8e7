// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <numeric>

#include <fmt/core.h>

#include <core/nn/kernels/context.hpp>
#include <core/nn/optimizer/init.hpp>
#include <miniapp/execute/executor.hpp>
#include <miniapp/prove/state_hash.hpp>

namespace shardmark {
namespace {

// Hashes the states of one run. Ranks that have the same must agree.
struct StateHasher {
  const Context& context;
  const Program& program;
  const Executor& executor;
  Peers& peers;
  std::string disagreement = {};  // the first one

  // The hash of a state. Collective.
  std::uint64_t hash(State state) {
    const Mesh& mesh = program.mesh;
    const bool sharded = program.sharded[state];
    const int parts = mesh.tensor_ranks();
    // Ranks that hold one copy together: neighbours, and the ranks that divide layers with them.
    const int holders = (sharded ? program.shard_ranks : 1) * parts;
    std::uint64_t sum = sum_of_copies(state, Holders::all, "", [=](int r) { return r % holders; });
    if (parts > 1) compare_uncut(state, holders);
    if (mesh.expert_ranks() > 1)
      sum += sum_of_copies(state, Holders::of_experts, "experts: ", [&](int r) {
        return sharded ? r : mesh.expert_rank_of(r);
      });
    return sum;
  }

  // What frozen parameters add to the hash of all parameters. Collective if there are any.
  std::uint64_t frozen_part() const {
    const auto frozen = [](const Param& p) { return !p.updated(); };
    if (std::ranges::none_of(program.model.params, frozen)) return 0;
    const auto all = peers.gather(hash_some(State::param, frozen));
    const int holders = program.sharded[State::param] ? program.shard_ranks : 1;
    return std::accumulate(all.begin(), all.begin() + holders, std::uint64_t{0});
  }

  void differ(const char* what, State state, int a, std::uint64_t of_a, int b, std::uint64_t of_b) {
    if (disagreement.empty())
      disagreement = fmt::format("{}{} of rank {} hashes to {:016x}, rank {}'s to {:016x}", what,
                                 to_string(state), a, of_a, b, of_b);
  }

  // Sums the hashes of what this rank has of the parameters that `counts` accepts. Their elements
  // have the numbers that they have in the model or, if they are `alone`, those that they would
  // have if there were no others.
  template<class F>
  std::uint64_t hash_some(State state, const F& counts, bool alone = false) const {
    const std::vector<Param>& params = program.model.params;
    std::vector<std::int64_t> numbers;  // by parameter: that of its first element
    std::int64_t before = 0;
    for (const Param& p : params) {
      numbers.push_back(alone ? before : p.first_elem);
      if (counts(p)) before += p.elems;
    }
    std::uint64_t sum = 0;
    for (const StatePiece& piece : program.states) {
      if (piece.state != state) continue;
      const Bound slot = executor.slot(piece.slot);
      const std::int64_t piece_end = piece.first_elem + piece.elems;
      const auto behind =
          std::ranges::upper_bound(params, piece.first_elem, {}, &Param::first_elem);
      for (auto p = std::prev(behind); p != params.end() && p->first_elem < piece_end; ++p) {
        if (!counts(*p)) continue;
        const std::int64_t first = std::max(piece.first_elem, p->first_elem);
        const std::int64_t end = std::min(piece_end, p->first_elem + p->elems);
        auto* const data = slot.as<std::byte>() +
                           (piece.offset + first - piece.first_elem) * dtype_bytes(slot.dtype);
        sum += state_hash(context, {slot.dtype, data}, end - first,
                          numbers[p - params.begin()] + first - p->first_elem);
      }
    }
    return sum;
  }

  // Sums the hashes of what ranks have of such parameters, those of ranks with the same
  // `copy_of(rank)` once. These must agree.
  template<class F>
  std::uint64_t sum_of_copies(State state, Holders holders, const char* what, const F& copy_of) {
    const auto all =
        peers.gather(hash_some(state, [=](const Param& p) { return p.holders == holders; }));
    std::map<int, int> first;  // by copy
    std::uint64_t sum = 0;
    for (int r = 0; r < std::ssize(all); ++r) {
      const auto [it, is_first] = first.try_emplace(copy_of(r), r);
      const int other = it->second;
      if (is_first)
        sum += all[r];
      else if (all[r] != all[other])
        differ(what, state, r, all[r], other, all[other]);
    }
    return sum;
  }

  // Whether ranks that divide layers have the same of what is not cut, whose numbers do not count
  // what is, since that need not be as large on all ranks. Those of one shard need not have the
  // same elements of it, so that the sums over all shards are compared.
  void compare_uncut(State state, int holders) {
    const auto uncut = peers.gather(hash_some(
        state, [](const Param& p) { return !p.slice.cuts(); }, true));
    const int parts = program.mesh.tensor_ranks();
    for (int block = 0; block < peers.size(); block += holders) {
      std::vector<std::uint64_t> sums(static_cast<std::size_t>(parts));
      for (int r = 0; r < holders; ++r) sums[r % parts] += uncut[block + r];
      for (int r = 1; r < parts; ++r)
        if (sums[r] != sums[0]) differ("undivided ", state, block + r, sums[r], block, sums[0]);
    }
  }
};

}  // namespace

StateHashes hash_states(const Context& context, const Program& program, const Executor& executor,
                        Peers& peers) {
  StateHasher hasher{context, program, executor, peers};
  StateHashes hashes;
  for (const State state : all_values<State>) hashes.of[state] = hasher.hash(state);
  // fp32 parameters equal their masters bit for bit, so a shard that did not arrive is found here.
  // Frozen ones have no master.
  if (program.precision.model == Dtype::fp32) {
    const std::uint64_t master = hashes.of[State::master],
                        updated = hashes.of[State::param] - hasher.frozen_part();
    if (updated != master && hasher.disagreement.empty())
      hasher.disagreement =
          fmt::format("param hashes to {:016x}, its master to {:016x}", updated, master);
  }
  hashes.disagreement = hasher.disagreement;
  return hashes;
}

}  // namespace shardmark
