// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include <core/nn/init.hpp>
#include <miniapp/state_hash.hpp>

namespace shardmark {
namespace {

// Hash of elements [first, first + elems) of a unit that starts at `data`; padding does not count.
std::uint64_t hash_piece(const Context& context, const Program& program, int unit,
                         std::int64_t first, std::int64_t elems, const float* data) {
  const std::int64_t real =
      std::clamp<std::int64_t>(program.partition.units[unit].elems - first, 0, elems);
  return state_hash(context, data, real, program.model.units[unit].first_elem + first);
}

struct Local {
  std::uint64_t owned = 0;  // of what this rank owns
  std::uint64_t whole = 0;  // of the replica, where this rank has one
  bool replica = false;
};

Local hash_local(const Context& context, const Program& program, const Executor& executor,
                 const std::string& prefix) {
  Local sum;
  for (int u = 0; u < static_cast<int>(program.model.units.size()); ++u) {
    const int slot = executor.find_slot(prefix + program.model.units[u].name);
    if (slot < 0)
      throw PlanError("state hash: " + prefix + program.model.units[u].name + ": not alive");
    const Bound state = executor.slot(slot);
    const UnitPartition& part = program.partition.units[u];
    const std::int64_t offset = program.partition.offset(u, program.rank);
    const bool whole = state.elems == part.padded;
    const float* own = state.as<float>() + (whole ? offset : 0);
    sum.owned += hash_piece(context, program, u, offset, part.shard, own);
    if (whole) {
      sum.replica = true;
      sum.whole += hash_piece(context, program, u, 0, part.padded, state.as<float>());
    }
  }
  return sum;
}

}  // namespace

StateHashes hash_states(const Context& context, const Program& program, const Executor& executor,
                        Peers& peers) {
  StateHashes hashes;
  auto one = [&](const char* name) {
    const auto all = peers.gather(hash_local(context, program, executor, std::string(name) + "."));
    std::uint64_t total = 0;
    for (const Local& l : all) total += l.owned;
    if (!program.partition.sharded) total = all[0].whole;
    for (int r = 0; r < peers.size(); ++r)
      if (all[r].replica && all[r].whole != total && hashes.disagreement.empty())
        hashes.disagreement = fmt::format("{} of rank {} hashes to {:016x}, the others' to {:016x}",
                                          name, r, all[r].whole, total);
    return total;
  };
  hashes.param = one("param");
  hashes.master = hashes.param;  // fp32 under `paper`: master is param itself
  hashes.momentum = one("momentum");
  hashes.variance = one("variance");
  return hashes;
}

}  // namespace shardmark
