// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <core/plan/deck/checked.hpp>
#include <core/plan/deepspeed/muon.hpp>
#include <core/plan/model/muon_sizes.hpp>

namespace shardmark {
namespace {

struct Placed {
  bool stage3, offloads, bf16_optimizer;
  MuonPlacement placement;
};

// clang-format off
constexpr Placed placements[] = {
    // stage 3, host, BF16_Optimizer     maker               moment                   gather                  scatter
    {false, false, false, {MuonMaker::holders, MuonMoment::reduced,     MuonGather::nothing,    MuonScatter::nothing}},
    {false, false, true,  {MuonMaker::holders, MuonMoment::after_norm,  MuonGather::exchange,   MuonScatter::own_part}},
    {false, true,  false, {MuonMaker::every,   MuonMoment::before_norm, MuonGather::partitions, MuonScatter::own_part}},
    {true,  false, false, {MuonMaker::dealt,   MuonMoment::before_norm, MuonGather::shards,     MuonScatter::all_gather}},
    {true,  true,  false, {MuonMaker::every,   MuonMoment::before_norm, MuonGather::shards,     MuonScatter::own_part}},
};
// clang-format on

}  // namespace

MuonPlacement muon_placement(int stage, bool offloads, bool bf16_optimizer) {
  const auto row = std::ranges::find_if(placements, [&](const Placed& r) {
    return r.stage3 == (stage == 3) && r.offloads == offloads && r.bf16_optimizer == bf16_optimizer;
  });
  return row->placement;
}

void Orthogonalizer::declare(const std::vector<int>& matrices) {
  if (!c_.program.trains || matrices.empty()) return;
  std::int64_t bytes = 0;
  for (const int id : matrices) {
    const std::vector<std::int64_t>& shape = c_.param(id).shape;
    bytes = std::max(bytes, muon_workspace(shape[0], shape[1]).gemm);
  }
  bytes = checked_add(bytes, c_.profile.workspace_cap_bytes, "workspace");
  workspace_ = w_.slot("muon", Category::workspace, Dtype::uint8, bytes);
}

void Orthogonalizer::update(int matrix, Operand grad, Operand momentum,
                            std::optional<Operand> staged) {
  std::vector<Operand> operands{w_.update(grad)};
  if (staged) operands.push_back(*staged);
  operands.push_back(staged ? w_.read(momentum) : w_.update(momentum));
  if (workspace_ != no_slot) operands.push_back(w_.write(workspace_));
  w_.compute(Kernel::orthogonalize, operands, {&matrix, 1});
}

void Muon::make_updates(MuonMoment now, bool first) {
  if (now != placement_.moment) return;
  first_step_ = first;
  const bool deals = placement_.maker == MuonMaker::dealt;
  const auto round = static_cast<std::size_t>(deals ? c_.world() : 1);
  const auto mine = static_cast<std::size_t>(deals ? c_.program.partition_rank() : 0);
  for (std::size_t b = 0; b < batches(); ++b) {
    Matrices matrices = gather(b);
    orthogonalizer_.acquire();
    for (std::size_t at = 0; at < matrices.size(); at += round) {
      const auto dealt = std::span(matrices).subspan(at, std::min(round, matrices.size() - at));
      if (mine < dealt.size()) {
        Matrix& m = dealt[mine];
        before(m);
        orthogonalizer_.update(m.id, m.grad, m.momentum, m.staged);
        after(m);
      }
      if (placement_.scatter == MuonScatter::all_gather) share(dealt);
    }
    orthogonalizer_.release();
    if (placement_.scatter != MuonScatter::nothing) scatter(b, matrices);
  }
}

void Muon::count_update(std::size_t group, Operand update) {
  if (has_scale()) w_.compute(Kernel::rescale, {w_.update(update)});
  scalars_.add_to_sum(static_cast<int>(group), update);
}

}  // namespace shardmark
