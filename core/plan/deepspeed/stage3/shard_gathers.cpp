// SPDX-License-Identifier: Apache-2.0
#include <core/plan/deepspeed/kept_buffers.hpp>
#include <core/plan/deepspeed/stage3/shard_gathers.hpp>

namespace shardmark {

ShardGathers::Buffers ShardGathers::buffers_of(std::int64_t row) {
  const auto [it, fresh] = buffers_.try_emplace(row);
  if (fresh) {
    const auto declare = [&](const char* name, std::int64_t elems) {
      return w_.slot(name + std::to_string(buffers_.size()), Category::bucket, type(), elems,
                     Tier::device, recorded::muon_gathers);
    };
    it->second = {declare("muon_sent.", row), declare("muon_gathered.", row * c_.world())};
  }
  return it->second;
}

void ShardGathers::init(const std::vector<MuonChunk>& chunks, int lists) {
  if (c_.world() == 1) return;
  KeptBuffers<std::int64_t> kept;
  for (int step = 0; step < 2; ++step)  // the first one may leave other buffers than the rest
    for (const MuonChunk& chunk : chunks) {
      const std::int64_t row = chunk.row * lists;
      kept.use(row, row * (c_.world() + 1) * dtype_bytes(type()));
    }
  for (const std::int64_t row : kept.sizes()) {
    const Buffers b = buffers_of(row);
    for (const int slot : {b.local, b.gathered}) w_.acquire(slot);
  }
}

std::vector<Operand> ShardGathers::matrices(const MuonChunk& chunk, int whole) const {
  std::vector<Operand> list;
  for (std::size_t i = 0; i < chunk.params.size(); ++i)
    list.push_back(c_.update_part(whole, chunk.at[i] * c_.world(), c_.elems(chunk.params[i])));
  return list;
}

void ShardGathers::gather(const MuonChunk& chunk, const std::vector<std::vector<Operand>>& lists,
                          const std::vector<int>& whole) {
  if (c_.world() == 1) {
    for (std::size_t l = 0; l < lists.size(); ++l)
      for (std::size_t i = 0; i < chunk.params.size(); ++i)
        c_.convert(c_.write_part(whole[l], chunk.at[i], c_.elems(chunk.params[i])), lists[l][i]);
    return;
  }
  const std::int64_t row = chunk.row * static_cast<std::int64_t>(lists.size());
  const Buffers b = buffers_of(row);
  const bool stays = w_.alive(b.local);
  for (const int slot : {b.local, b.gathered})
    if (!stays) w_.acquire(slot);
  const auto each = [&](const auto& move) {
    for (std::size_t l = 0; l < lists.size(); ++l)
      for (std::size_t i = 0; i < chunk.params.size(); ++i)
        move(l, i, chunk.row * static_cast<std::int64_t>(l) + chunk.at[i], lists[l][i].elems);
  };
  each([&](std::size_t l, std::size_t i, std::int64_t at, std::int64_t shard) {
    c_.convert(c_.write_part(b.local, at, shard), lists[l][i]);
  });
  const std::int64_t own = row * c_.program.rank;
  c_.convert(c_.write_part(b.gathered, own, row), w_.read(b.local));
  collectives_.issue(Op::all_gather, Reduction::none, c_.read_part(b.gathered, own, row),
                     w_.write(b.gathered), chunk.params);
  each([&](std::size_t l, std::size_t i, std::int64_t at, std::int64_t shard) {
    w_.compute(Kernel::rearrange,
               {c_.write_part(whole[l], chunk.at[i] * c_.world(), shard * c_.world()),
                c_.read_part(b.gathered, at, row * (c_.world() - 1) + shard)});
  });
  for (const int slot : {b.local, b.gathered})
    if (!stays) w_.release(slot);
}

}  // namespace shardmark
