// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <numeric>

#include <fmt/core.h>

#include <core/nn/kernels/context.hpp>
#include <core/nn/optimizer/init.hpp>
#include <miniapp/execute/executor.hpp>
#include <miniapp/prove/state_hash.hpp>

namespace shardmark {
namespace {

// Sums the hashes of this rank's pieces of a state.
std::uint64_t hash_local(const Context& context, const Program& program, const Executor& executor,
                         State state) {
  std::uint64_t sum = 0;
  for (const StatePiece& piece : program.states) {
    if (piece.state != state) continue;
    const Bound slot = executor.slot(piece.slot);
    auto* data = slot.as<std::byte>() + piece.offset * dtype_bytes(slot.dtype);
    sum += state_hash(context, {slot.dtype, data}, piece.elems, piece.first_elem);
  }
  return sum;
}

// The same for what all ranks that divide layers have: parameters that are not cut.
std::uint64_t hash_uncut(const Context& context, const Program& program, const Executor& executor,
                         State state) {
  std::uint64_t sum = 0;
  for (const StatePiece& piece : program.states) {
    if (piece.state != state) continue;
    const Bound slot = executor.slot(piece.slot);
    for (const Param& p : program.model.params) {
      const std::int64_t first = std::max(piece.first_elem, p.first_elem);
      const std::int64_t end = std::min(piece.first_elem + piece.elems, p.first_elem + p.elems);
      if (end <= first || p.slice.cuts()) continue;
      auto* data = slot.as<std::byte>() +
                   (piece.offset + first - piece.first_elem) * dtype_bytes(slot.dtype);
      sum += state_hash(context, {slot.dtype, data}, end - first, first);
    }
  }
  return sum;
}

std::string differ(State state, int a, std::uint64_t of_a, int b, std::uint64_t of_b) {
  return fmt::format("{} of rank {} hashes to {:016x}, rank {}'s to {:016x}", to_string(state), a,
                     of_a, b, of_b);
}

}  // namespace

StateHashes hash_states(const Context& context, const Program& program, const Executor& executor,
                        Peers& peers) {
  StateHashes hashes;
  auto one = [&](State state) {
    const auto all = peers.gather(hash_local(context, program, executor, state));
    const bool sharded = program.sharded[state];
    const int parts = program.mesh.tensor_ranks();
    // Ranks that hold one copy together: neighbours, and the ranks that divide layers with them.
    const int holders = (sharded ? program.shard_ranks : 1) * parts;
    for (int r = holders; r < peers.size(); ++r)
      if (all[r] != all[r % holders] && hashes.disagreement.empty())
        hashes.disagreement = differ(state, r, all[r], r % holders, all[r % holders]);
    if (parts > 1) {
      const auto uncut = peers.gather(hash_uncut(context, program, executor, state));
      for (int r = 0; r < peers.size(); ++r)
        if (const int first = r - r % parts;
            uncut[r] != uncut[first] && hashes.disagreement.empty())
          hashes.disagreement = "undivided " + differ(state, r, uncut[r], first, uncut[first]);
    }
    return std::accumulate(all.begin(), all.begin() + holders, std::uint64_t{0});
  };
  hashes.param = one(State::param);
  hashes.master = one(State::master);
  hashes.momentum = one(State::momentum);
  hashes.variance = one(State::variance);
  // fp32 parameters equal their masters bit for bit, so a shard that did not arrive is found here.
  if (program.precision.model == Dtype::fp32 && hashes.param != hashes.master &&
      hashes.disagreement.empty())
    hashes.disagreement =
        fmt::format("param hashes to {:016x}, its master to {:016x}", hashes.param, hashes.master);
  return hashes;
}

}  // namespace shardmark
