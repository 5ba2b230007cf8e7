// SPDX-License-Identifier: Apache-2.0
#include <core/plan/deepspeed/stage3/sharded_muon.hpp>

namespace shardmark {

ShardedMuon::ShardedMuon(StageContext& context, ShardedParams& params)
    : Muon(context, muon_placement(3, context.offloads(), false)),
      params_(params),
      passing_(w_),
      buffers_(context,
               context.offloads() ? context.precision.grad_accum : context.precision.comm) {}

void ShardedMuon::init() {
  std::vector<int> all;
  for (std::size_t g = 0; g < params_.group_count(); ++g) {
    if (!params_.has_matrices(g)) continue;
    find_chunks(g);
    const std::vector<int>& ids = params_.groups().groups()[g].params;
    all.insert(all.end(), ids.begin(), ids.end());
  }
  orthogonalizer_.declare(all);
  std::vector<GatherBuffers::Size> gathers;
  for (int step = 0; step < 2; ++step)  // the first one may leave other buffers than the rest
    for (const Chunk& chunk : chunks_)
      gathers.push_back({0, chunk.row * (c_.offloads() ? 2 : 1), 1});
  buffers_.keep_after(gathers);
}

// With the optimizer on the host a whole sub-group is gathered at once, otherwise at most
// reduce_bucket_size elements.
void ShardedMuon::find_chunks(std::size_t g) {
  std::int64_t elems = 0;
  bool open = false;
  for (const int id : params_.groups().groups()[g].params) {
    if (!open || (!c_.offloads() && elems + c_.elems(id) > c_.knobs.reduce_bucket_size)) {
      chunks_.emplace_back().group = g;
      elems = 0;
    }
    open = true;
    Chunk& chunk = chunks_.back();
    chunk.params.push_back(id);
    chunk.at.push_back(chunk.row);
    chunk.row += params_.shard(id);
    elems += c_.elems(id);
  }
}

std::vector<Operand> ShardedMuon::shards(const Chunk& chunk, Operand group) const {
  std::vector<Operand> list;
  for (const int id : chunk.params)
    list.push_back(w_.read(group, params_.groups().offset_of(id), params_.shard(id)));
  return list;
}

std::vector<Operand> ShardedMuon::matrices(const Chunk& chunk, int whole) const {
  std::vector<Operand> list;
  for (std::size_t i = 0; i < chunk.params.size(); ++i)
    list.push_back(w_.update(whole, chunk.at[i] * c_.world(), c_.elems(chunk.params[i])));
  return list;
}

void ShardedMuon::gather_shards(const Chunk& chunk, const std::vector<std::vector<Operand>>& lists,
                                const std::vector<int>& whole) {
  const auto each = [&](const auto& move) {
    for (std::size_t l = 0; l < lists.size(); ++l)
      for (std::size_t i = 0; i < chunk.params.size(); ++i)
        move(l, i, chunk.row * static_cast<std::int64_t>(l) + chunk.at[i]);
  };
  if (c_.world() == 1)
    return each([&](std::size_t l, std::size_t i, std::int64_t) {
      w_.convert(w_.write(whole[l], chunk.at[i], c_.elems(chunk.params[i])), lists[l][i]);
    });
  const std::int64_t row = chunk.row * static_cast<std::int64_t>(lists.size());
  buffers_.with({0, row, 1}, [&](const GatherBuffers::Buffers& b) {
    each([&](std::size_t l, std::size_t i, std::int64_t at) {
      w_.convert(w_.write(b.local, at, lists[l][i].elems), lists[l][i]);
    });
    const std::int64_t own = row * c_.program.partition_rank();
    w_.convert(w_.write(b.gathered, own, row), w_.read(b.local));
    collectives_.issue(Op::all_gather, Reduction::none, w_.read(b.gathered, own, row),
                       w_.write(b.gathered), chunk.params);
    each([&](std::size_t l, std::size_t i, std::int64_t at) {
      const std::int64_t shard = lists[l][i].elems;
      w_.compute(Kernel::rearrange,
                 {w_.write(whole[l], chunk.at[i] * c_.world(), shard * c_.world()),
                  w_.read(b.gathered, at, row * (c_.world() - 1) + shard)});
    });
  });
}

}  // namespace shardmark
