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

// Sums the hashes of what this rank has of the parameters that `counts` accepts. Their elements
// have the numbers that they have in the model or, if they are `alone`, those that they would have
// if there were no others.
template<class F>
std::uint64_t hash_some(const Context& context, const Program& program, const Executor& executor,
                        State state, const F& counts, bool alone = false) {
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
    const auto behind = std::ranges::upper_bound(params, piece.first_elem, {}, &Param::first_elem);
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

std::string differ(State state, int a, std::uint64_t of_a, int b, std::uint64_t of_b) {
  return fmt::format("{} of rank {} hashes to {:016x}, rank {}'s to {:016x}", to_string(state), a,
                     of_a, b, of_b);
}

// Sums the hashes of ranks, those of ranks with the same `copy_of(rank)` once. These must agree.
template<class F>
std::uint64_t sum_of_copies(State state, const std::string& what,
                            const std::vector<std::uint64_t>& all, const F& copy_of,
                            std::string& disagreement) {
  std::map<int, int> first;  // by copy
  std::uint64_t sum = 0;
  for (int r = 0; r < std::ssize(all); ++r) {
    const auto [it, is_first] = first.try_emplace(copy_of(r), r);
    const int other = it->second;
    if (is_first)
      sum += all[r];
    else if (all[r] != all[other] && disagreement.empty())
      disagreement = what + differ(state, r, all[r], other, all[other]);
  }
  return sum;
}

// Whether ranks that divide layers have the same of what is not cut, whose numbers do not count
// what is, since that need not be as large on all ranks. Those of one shard need not have the same
// elements of it, so that the sums over all shards are compared. Collective.
void compare_uncut(const Context& context, const Program& program, const Executor& executor,
                   State state, Peers& peers, int holders, std::string& disagreement) {
  const auto uncut = peers.gather(hash_some(
      context, program, executor, state, [](const Param& p) { return !p.slice.cuts(); }, true));
  const int parts = program.mesh.tensor_ranks();
  for (int block = 0; block < peers.size(); block += holders) {
    std::vector<std::uint64_t> sums(static_cast<std::size_t>(parts));
    for (int r = 0; r < holders; ++r) sums[r % parts] += uncut[block + r];
    for (int r = 1; r < parts; ++r)
      if (const std::uint64_t own = sums[r]; own != sums[0] && disagreement.empty())
        disagreement = "undivided " + differ(state, block + r, own, block, sums[0]);
  }
}

// What frozen parameters add to the hash of all parameters. Collective if there are any.
std::uint64_t frozen_part(const Context& context, const Program& program, const Executor& executor,
                          Peers& peers) {
  const auto frozen = [](const Param& p) { return !p.updated(); };
  if (std::ranges::none_of(program.model.params, frozen)) return 0;
  const auto all = peers.gather(hash_some(context, program, executor, State::param, frozen));
  const int holders = program.sharded[State::param] ? program.shard_ranks : 1;
  return std::accumulate(all.begin(), all.begin() + holders, std::uint64_t{0});
}

// The hash of the experts of all ranks, if ranks divide them, those of each rank once; the ranks
// with the same ones must agree. Collective in that case.
std::uint64_t hash_experts(const Context& context, const Program& program, const Executor& executor,
                           State state, Peers& peers, std::string& disagreement) {
  const Mesh& mesh = program.mesh;
  if (mesh.expert_ranks() == 1) return 0;
  const auto all = peers.gather(hash_some(context, program, executor, state, [](const Param& p) {
    return p.holders == Holders::of_experts;
  }));
  const bool sharded = program.sharded[state];
  return sum_of_copies(
      state, "experts: ", all, [&](int r) { return sharded ? r : mesh.expert_rank_of(r); },
      disagreement);
}

}  // namespace

StateHashes hash_states(const Context& context, const Program& program, const Executor& executor,
                        Peers& peers) {
  StateHashes hashes;
  auto one = [&](State state) {
    const auto all = peers.gather(hash_some(context, program, executor, state, [](const Param& p) {
      return p.holders == Holders::all;
    }));
    const bool sharded = program.sharded[state];
    const int parts = program.mesh.tensor_ranks();
    // Ranks that hold one copy together: neighbours, and the ranks that divide layers with them.
    const int holders = (sharded ? program.shard_ranks : 1) * parts;
    const std::uint64_t sum = sum_of_copies(
        state, "", all, [=](int r) { return r % holders; }, hashes.disagreement);
    if (parts > 1)
      compare_uncut(context, program, executor, state, peers, holders, hashes.disagreement);
    return sum + hash_experts(context, program, executor, state, peers, hashes.disagreement);
  };
  for (const State state : all_values<State>) hashes.of[state] = one(state);
  // fp32 parameters equal their masters bit for bit, so a shard that did not arrive is found here.
  // Frozen ones have no master.
  if (program.precision.model != Dtype::fp32) return hashes;
  const std::uint64_t master = hashes.of[State::master],
                      updated =
                          hashes.of[State::param] - frozen_part(context, program, executor, peers);
  if (updated != master && hashes.disagreement.empty())
    hashes.disagreement =
        fmt::format("param hashes to {:016x}, its master to {:016x}", updated, master);
  return hashes;
}

}  // namespace shardmark
