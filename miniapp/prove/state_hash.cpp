// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>

#include <fmt/core.h>

#include <core/nn/kernels/context.hpp>
#include <core/nn/optimizer/init.hpp>
#include <miniapp/execute/executor.hpp>
#include <miniapp/prove/state_hash.hpp>

namespace shardmark {
namespace {

// The hash of the elements [first, end) of the model that a piece of a state has, the first of
// which counts as number `number`.
std::uint64_t hash_range(const Context& context, const Executor& executor, const StatePiece& piece,
                         std::int64_t first, std::int64_t end, std::int64_t number) {
  const Bound slot = executor.slot(piece.slot);
  auto* data =
      slot.as<std::byte>() + (piece.offset + first - piece.first_elem) * dtype_bytes(slot.dtype);
  return state_hash(context, {slot.dtype, data}, end - first, number);
}

// Sums the hashes of this rank's pieces of a state.
std::uint64_t hash_local(const Context& context, const Program& program, const Executor& executor,
                         State state) {
  std::uint64_t sum = 0;
  for (const StatePiece& piece : program.states)
    if (piece.state == state)
      sum += hash_range(context, executor, piece, piece.first_elem, piece.first_elem + piece.elems,
                        piece.first_elem);
  return sum;
}

// Sums the hashes of what this rank has of the parameters to whose first element `number_of` gives
// a number. It is called with the place of the parameter in the model.
template<class F>
std::uint64_t hash_numbered(const Context& context, const Program& program,
                            const Executor& executor, State state, const F& number_of) {
  std::uint64_t sum = 0;
  for (const StatePiece& piece : program.states) {
    if (piece.state != state) continue;
    for (std::size_t i = 0; i < program.model.params.size(); ++i) {
      const Param& p = program.model.params[i];
      const std::int64_t first = std::max(piece.first_elem, p.first_elem);
      const std::int64_t end = std::min(piece.first_elem + piece.elems, p.first_elem + p.elems);
      const std::optional<std::int64_t> number = number_of(i);
      if (first < end && number)
        sum += hash_range(context, executor, piece, first, end, *number + first - p.first_elem);
    }
  }
  return sum;
}

// Sums the hashes of what this rank has of the parameters that `counts` accepts, with the numbers
// that their elements have in the model.
template<class F>
std::uint64_t hash_some(const Context& context, const Program& program, const Executor& executor,
                        State state, const F& counts) {
  return hash_numbered(context, program, executor, state, [&](std::size_t i) {
    const Param& p = program.model.params[i];
    return counts(p) ? std::optional(p.first_elem) : std::nullopt;
  });
}

// Sums the hashes of what this rank has of the parameters that ranks do not cut. Their elements are
// numbered as if there were no others, since the others need not be as large on all ranks.
std::uint64_t hash_uncut(const Context& context, const Program& program, const Executor& executor,
                         State state) {
  std::vector<std::optional<std::int64_t>> numbers;
  std::int64_t before = 0;
  for (const Param& p : program.model.params) {
    numbers.push_back(p.slice.cuts() ? std::nullopt : std::optional(before));
    if (!p.slice.cuts()) before += p.elems;
  }
  return hash_numbered(context, program, executor, state,
                       [&](std::size_t i) { return numbers[i]; });
}

std::string differ(State state, int a, std::uint64_t of_a, int b, std::uint64_t of_b) {
  return fmt::format("{} of rank {} hashes to {:016x}, rank {}'s to {:016x}", to_string(state), a,
                     of_a, b, of_b);
}

// Whether ranks that divide layers have the same of what is not cut. Those of one shard need not
// have the same elements of it, so that the sums over all shards are compared. Collective.
void compare_uncut(const Context& context, const Program& program, const Executor& executor,
                   State state, Peers& peers, int holders, std::string& disagreement) {
  const auto uncut = peers.gather(hash_uncut(context, program, executor, state));
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
  if (program.sharded[state]) return std::accumulate(all.begin(), all.end(), std::uint64_t{0});
  std::vector<int> first(static_cast<std::size_t>(mesh.expert_ranks()), -1);
  std::uint64_t sum = 0;
  for (int r = 0; r < peers.size(); ++r) {
    int& holder = first[mesh.expert_rank_of(r)];
    if (holder < 0) {
      holder = r;
      sum += all[r];
    } else if (all[r] != all[holder] && disagreement.empty()) {
      disagreement = "experts: " + differ(state, r, all[r], holder, all[holder]);
    }
  }
  return sum;
}

}  // namespace

StateHashes hash_states(const Context& context, const Program& program, const Executor& executor,
                        Peers& peers) {
  StateHashes hashes;
  auto one = [&](State state) {
    const bool divides = program.mesh.expert_ranks() > 1;
    const auto all =
        peers.gather(divides ? hash_some(context, program, executor, state,
                                         [](const Param& p) { return p.holders == Holders::all; })
                             : hash_local(context, program, executor, state));
    const bool sharded = program.sharded[state];
    const int parts = program.mesh.tensor_ranks();
    // Ranks that hold one copy together: neighbours, and the ranks that divide layers with them.
    const int holders = (sharded ? program.shard_ranks : 1) * parts;
    for (int r = holders; r < peers.size(); ++r)
      if (all[r] != all[r % holders] && hashes.disagreement.empty())
        hashes.disagreement = differ(state, r, all[r], r % holders, all[r % holders]);
    if (parts > 1)
      compare_uncut(context, program, executor, state, peers, holders, hashes.disagreement);
    return std::accumulate(all.begin(), all.begin() + holders, std::uint64_t{0}) +
           hash_experts(context, program, executor, state, peers, hashes.disagreement);
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
