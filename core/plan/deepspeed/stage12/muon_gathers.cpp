// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <core/plan/deepspeed/kept_buffers.hpp>
#include <core/plan/deepspeed/stage12/muon_gathers.hpp>

namespace shardmark {
namespace {

/// The most that the matrices of a batch take with their momentum, unless there is but one, and the
/// most that the buffers of one gather take.
constexpr std::int64_t most_gather_bytes = std::int64_t{64} << 20;
constexpr std::int64_t elem_bytes = 4;  // of fp32 on the host

}  // namespace

MuonGathers::MuonGathers(DeepSpeedContext& context, const FlatStates& states,
                         Collectives& collectives)
    : c_(context), w_(context.writer), states_(states), collectives_(collectives) {
  if (!is_muon(c_.optimizer()) || !c_.offloads()) return;
  for (std::size_t g = 0; g < states_.groups().size(); ++g)
    if (states_.has_matrices(g)) find_batches(g);
}

void MuonGathers::find_batches(std::size_t g) {
  std::vector<int> params;
  std::int64_t elems = 0;
  for (const FlatParam& f : states_.groups()[g].layout) {
    const std::int64_t more = c_.elems(f.param);
    if (!params.empty() && elems + more > most_gather_bytes / (2 * elem_bytes)) {
      add_batch(g, params);
      params.clear();
      elems = 0;
    }
    params.push_back(f.param);
    elems += more;
  }
  add_batch(g, params);
}

void MuonGathers::add_batch(std::size_t g, const std::vector<int>& params) {
  const std::int64_t partition = states_.groups()[g].partition;
  std::map<int, std::int64_t> sent;  // by rank
  MuonBatch batch{.group = g, .params = params};
  for (const int id : params) {
    for (const OwnedSlice& own : states_.flat().owners(id)) {
      std::int64_t& end = sent[own.rank];
      batch.pieces.push_back({own.rank,
                              states_.flat().offset_of(id) + own.first - partition * own.rank,
                              batch.elems + own.first, end, own.elems});
      end += own.elems;
      batch.most_sent = std::max(batch.most_sent, end);
    }
    batch.elems += c_.elems(id);
  }
  batches_.push_back(std::move(batch));
}

MuonGathers::Size MuonGathers::size_of(const MuonBatch& batch, int partitions) const {
  const std::int64_t most =
      std::max<std::int64_t>(1, most_gather_bytes / ((c_.world() + 1) * partitions * elem_bytes));
  return {batch.group, std::min(batch.most_sent, most), partitions};
}

MuonGathers::Buffers& MuonGathers::buffers_of(const Size& size) {
  const auto [it, fresh] = buffers_.try_emplace(size);
  if (fresh) {
    const auto declare = [&](const char* name, int parts) {
      return w_.slot(name + std::to_string(buffers_.size()), Category::bucket, Dtype::fp32,
                     size.chunk * size.partitions * parts, Tier::device, recorded::muon_gathers);
    };
    it->second = {declare("muon_sent.", 1), declare("muon_gathered.", c_.world())};
  }
  return it->second;
}

// After a few steps the buffers that are kept are always the same.
void MuonGathers::init() {
  if (c_.world() == 1) return;
  KeptBuffers<Size> kept;
  for (const int partitions : {1, 2, 2})  // the first step gathers gradients alone
    for (const MuonBatch& batch : batches_) {
      const Size size = size_of(batch, partitions);
      kept.use(size, (c_.world() + 1) * size.chunk * partitions * elem_bytes);
    }
  for (const Size& size : kept.sizes()) {
    const Buffers& b = buffers_of(size);
    for (const int slot : {b.local, b.gathered}) w_.acquire(slot);
  }
}

void MuonGathers::gather(const MuonBatch& batch, const std::vector<int>& partitions,
                         const std::vector<int>& whole) {
  if (c_.world() == 1) {
    for (const MuonPiece& p : batch.pieces)
      for (std::size_t i = 0; i < whole.size(); ++i)
        w_.copy(c_.read_part(partitions[i], p.from, p.elems),
                c_.write_part(whole[i], p.into, p.elems));
    return;
  }
  const Size size = size_of(batch, static_cast<int>(whole.size()));
  const Buffers b = buffers_of(size);
  const bool stays = w_.alive(b.local);
  for (const int slot : {b.local, b.gathered})
    if (!stays) w_.acquire(slot);
  for (std::int64_t first = 0; first < batch.most_sent; first += size.chunk)
    send(batch, size, first, partitions, whole);
  for (const int slot : {b.local, b.gathered})
    if (!stays) w_.release(slot);
}

// Sends what of each rank's pieces comes after `first` elements.
void MuonGathers::send(const MuonBatch& batch, const Size& size, std::int64_t first,
                       const std::vector<int>& partitions, const std::vector<int>& whole) {
  const Buffers b = buffers_of(size);
  const auto each = [&](const auto& move) {
    for (const MuonPiece& p : batch.pieces) {
      const std::int64_t from = std::max(first, p.sent);
      const std::int64_t elems = std::min(first + size.chunk, p.sent + p.elems) - from;
      for (std::size_t i = 0; i < whole.size() && elems > 0; ++i)
        move(p, i, from - p.sent, static_cast<std::int64_t>(i) * size.chunk + from - first, elems);
    }
  };
  w_.compute(Kernel::zero, {w_.write(b.local)});
  each([&](const MuonPiece& p, std::size_t i, std::int64_t at, std::int64_t place,
           std::int64_t elems) {
    if (p.rank == c_.program.rank)
      w_.copy(c_.read_part(partitions[i], p.from + at, elems),
              c_.write_part(b.local, place, elems));
  });
  collectives_.issue(Op::all_gather, Reduction::none, w_.read(b.local), w_.write(b.gathered),
                     batch.params);
  each([&](const MuonPiece& p, std::size_t i, std::int64_t at, std::int64_t place,
           std::int64_t elems) {
    c_.convert(c_.write_part(whole[i], p.into + at, elems),
               c_.read_part(b.gathered, p.rank * w_[b.local].elems + place, elems));
  });
}

}  // namespace shardmark
