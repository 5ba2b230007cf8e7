// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <comm/nccl/nccl_headers.hpp>
#include <core/error.hpp>
#include <core/kokkos_shim.hpp>
#include <miniapp/ranks/faults.hpp>
#include <miniapp/ranks/lanes.hpp>
#include <miniapp/run/profile.hpp>

namespace shardmark {

namespace {

void require_backend(const Deck& deck, const Node& node, int world) {
  const BackendTraits& backend = traits(deck.comm.backend);
  if (backend.one_rank && world > 1)
    throw DeckError(
        fmt::format("{}: comm.backend = \"{}\": {} ranks: must be one: start one rank, "
                    "or give \"shm\", \"mpi\" or \"auto\"",
                    deck.path, backend.name, world));
  if (backend.one_node && node.ranks < world)
    throw DeckError(
        fmt::format("{}: comm.backend = \"{}\": {} of {} ranks are on {}: all must share one node: "
                    "give \"mpi\" or \"auto\"",
                    deck.path, backend.name, node.ranks, world, node.host));
  if (backend.needs_nccl && nccl_library().empty())
    throw DeckError(fmt::format(
        "{}: comm.backend = \"{}\": this build has no NCCL: give \"auto\" or \"mpi\", or build "
        "with a Kokkos that computes on GPUs (docs/gpus.md)",
        deck.path, backend.name));
  if (!backend.ordered_sums && deck.run.reductions == Reductions::ordered)
    throw DeckError(fmt::format(
        "{}: comm.backend = \"{}\" with run.reductions = \"ordered\": not modelled yet: give "
        "\"native\", or \"mpi\"",
        deck.path, backend.name));
}

}  // namespace

Profile run_profile(const Deck& deck, const Node& node, int world) {
  require_backend(deck, node, world);
  if (!device_is_host && (deck.zero.offload_optimizer.nvme || deck.zero.offload_param.nvme))
    throw DeckError(
        fmt::format("{}: deepspeed.zero_optimization: device = \"nvme\": states in files are not "
                    "supported on CUDA yet: give \"cpu\"",
                    deck.path));
  if (const Fault fault = fault_from_environment(world).kind;
      !device_is_host && fault != Fault::none && fault != Fault::leak && fault != Fault::nan &&
      fault != Fault::extra_call && fault != Fault::extra_copy && fault != Fault::illegal_plan)
    throw DeckError(
        fmt::format("environment: SHARDMARK_FAULT = {}: not supported on CUDA yet: it reads "
                    "buffers of the device: give leak, nan, extra_call, extra_copy or illegal_plan",
                    to_string(fault)));
  Profile profile;
  profile.ranks_per_node = node.ranks;
  // Measured with oneDNN 2.6 on GPT-2's shapes: the default is enough for packed pieces with one
  // thread, and each further thread needs at most 1.7 MB more.
  if (device_is_host)
    profile.workspace_cap_bytes += (concurrency(Space()) - 1) * (std::int64_t{2} << 20);
  else
    profile.workspace_cap_bytes = std::int64_t{32} << 20;  // the most that cuBLASLt asks for
  return profile;
}

}  // namespace shardmark
