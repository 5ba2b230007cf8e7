// SPDX-License-Identifier: Apache-2.0
// Muon at DeepSpeed's stages 1 and 2 with the optimizer on the host. Each rank has its partition of
// gradients and momentum there, in fp32. In each step that is not skipped every rank gathers all
// matrices on the device, makes all updates, and takes its own part of them down again.
//
// Whole matrices reach every rank batch by batch: each rank sends the parts that its partition has.
// Messages that are too large fall into several ones of equal size, so a rank with a smaller part
// sends zeros.
//
// Source: DeepSpeed 0.19's stage_1_and_2.py, _apply_muon_updates_cpu_offload,
// _muon_all_gather_partitions and _muon_param_batches.
#include <algorithm>
#include <map>

#include <core/plan/deepspeed/muon_buffers.hpp>
#include <core/plan/deepspeed/stage12/flat_muon.hpp>
#include <core/plan/write/state_writer.hpp>

namespace shardmark {
namespace {

/// The most that the matrices of a batch take with their momentum, unless there is but one, and the
/// most that the buffers of one gather take.
constexpr std::int64_t most_gather_bytes = std::int64_t{64} << 20;
constexpr std::int64_t elem_bytes = 4;  // of fp32 on the host

class HostPartitions final : public Muon {
 public:
  HostPartitions(StageContext& context, const FlatStates& states)
      : Muon(context, muon_placement(context.stage(), true, false)),
        states_(states),
        momentum_(states.groups().size(), no_slot),
        whole_grads_(w_),
        whole_momenta_(w_),
        buffers_(context, Dtype::fp32) {}

  void init() override {
    std::vector<int> matrices;
    for (std::size_t g = 0; g < states_.groups().size(); ++g) {
      if (!states_.has_matrices(g)) continue;
      const FlatGroup& group = states_.groups()[g];
      matrices.insert(matrices.end(), group.params.begin(), group.params.end());
      momentum_[g] = c_.host_slot("momentum" + states_.suffix(g), Category::momentum, Dtype::fp32,
                                  group.partition);
      place_state(c_.program, State::momentum, momentum_[g], 0, group.layout, states_.own_first(g),
                  group.partition);
      acquire_zeroed(w_, momentum_[g]);
      find_batches(g);
    }
    orthogonalizer_.declare(matrices);
    std::vector<GatherBuffers::Size> gathers;
    for (const int lists : {1, 2, 2})  // the first step gathers gradients alone
      for (const Batch& batch : batches_) gathers.push_back(size_of(batch, lists));
    buffers_.keep_after(gathers);
  }

 private:
  /// A part of a matrix that one rank owns.
  struct Piece {
    int rank = 0;
    std::int64_t from = 0;  // in the rank's partition
    std::int64_t into = 0;  // in the batch
    std::int64_t sent = 0;  // after how many elements of the rank's pieces it is sent
    std::int64_t elems = 0;
  };
  /// Matrices that are whole at the same time, side by side.
  struct Batch {
    std::size_t group = 0;
    std::vector<int> params;
    std::int64_t elems = 0;
    std::vector<Piece> pieces = {};
    std::int64_t most_sent = 0;  // by any rank
  };
  /// A partition on the host, and the whole matrices of a batch that are gathered from it.
  struct List {
    int partition, whole;
  };

  void find_batches(std::size_t g) {
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

  void add_batch(std::size_t g, const std::vector<int>& params) {
    const std::int64_t partition = states_.groups()[g].partition;
    std::map<int, std::int64_t> sent;  // by rank
    Batch batch{.group = g, .params = params};
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

  GatherBuffers::Size size_of(const Batch& batch, int lists) const {
    const std::int64_t most =
        std::max<std::int64_t>(1, most_gather_bytes / ((c_.world() + 1) * lists * elem_bytes));
    return {batch.group, std::min(batch.most_sent, most), lists};
  }

  std::size_t batches() const override { return batches_.size(); }
  List grads(const Batch& b) {
    return {states_.host_grad(b.group), whole_grads_.whole("whole_gradients", b.elems)};
  }
  List momenta(const Batch& b) {
    return {momentum_[b.group], whole_momenta_.whole("whole_momentum", b.elems)};
  }

  Matrices gather(std::size_t number) override {
    const Batch& batch = batches_[number];
    std::vector<List> lists{grads(batch), momenta(batch)};
    const auto [grad, momentum] = std::pair{lists[0].whole, lists[1].whole};
    for (const int slot : {grad, momentum}) w_.acquire(slot);
    if (is_first_step()) lists.pop_back();
    gather_lists(batch, lists);
    if (is_first_step()) w_.compute(Kernel::zero, {w_.write(momentum)});
    if (has_scale()) w_.compute(Kernel::unscale, {w_.update(grad)});
    Matrices matrices;
    std::int64_t at = 0;
    for (const int id : batch.params) {
      matrices.push_back(
          {id, w_.update(grad, at, c_.elems(id)), w_.update(momentum, at, c_.elems(id))});
      at += c_.elems(id);
    }
    return matrices;
  }

  void scatter(std::size_t number, const Matrices&) override {
    const Batch& batch = batches_[number];
    const List grad = grads(batch), momentum = momenta(batch);
    for (const Piece& piece : batch.pieces) {
      if (piece.rank != c_.program.partition_rank()) continue;
      count_update(batch.group, w_.update(grad.whole, piece.into, piece.elems));
      for (const List& list : {grad, momentum})
        w_.copy(w_.read(list.whole, piece.into, piece.elems),
                w_.write(list.partition, piece.from, piece.elems));
    }
    for (const List& list : {grad, momentum}) w_.release(list.whole);
  }

  void gather_lists(const Batch& batch, const std::vector<List>& lists) {
    if (c_.world() == 1) {
      for (const Piece& p : batch.pieces)
        for (const List& list : lists)
          w_.copy(w_.read(list.partition, p.from, p.elems), w_.write(list.whole, p.into, p.elems));
      return;
    }
    const GatherBuffers::Size size = size_of(batch, static_cast<int>(lists.size()));
    buffers_.with(size, [&](const GatherBuffers::Buffers& b) {
      for (std::int64_t first = 0; first < batch.most_sent; first += size.chunk)
        send(batch, size.chunk, b, first, lists);
    });
  }

  // Sends what of each rank's pieces comes after `first` elements.
  void send(const Batch& batch, std::int64_t chunk, const GatherBuffers::Buffers& b,
            std::int64_t first, const std::vector<List>& lists) {
    const auto each = [&](const auto& move) {
      for (const Piece& p : batch.pieces) {
        const std::int64_t from = std::max(first, p.sent);
        const std::int64_t elems = std::min(first + chunk, p.sent + p.elems) - from;
        for (std::size_t i = 0; i < lists.size() && elems > 0; ++i)
          move(p, lists[i], from - p.sent, static_cast<std::int64_t>(i) * chunk + from - first,
               elems);
      }
    };
    w_.compute(Kernel::zero, {w_.write(b.local)});
    each([&](const Piece& p, const List& list, std::int64_t at, std::int64_t place,
             std::int64_t elems) {
      if (p.rank == c_.program.partition_rank())
        w_.copy(w_.read(list.partition, p.from + at, elems), w_.write(b.local, place, elems));
    });
    collectives_.issue(Op::all_gather, Reduction::none, w_.read(b.local), w_.write(b.gathered),
                       batch.params);
    each([&](const Piece& p, const List& list, std::int64_t at, std::int64_t place,
             std::int64_t elems) {
      w_.convert(w_.write(list.whole, p.into + at, elems),
                 w_.read(b.gathered, p.rank * w_[b.local].elems + place, elems));
    });
  }

  const FlatStates& states_;
  std::vector<int> momentum_;  // by group: this rank's partition
  std::vector<Batch> batches_;
  SizedSlots whole_grads_, whole_momenta_;  // of a batch
  GatherBuffers buffers_;
};

}  // namespace

std::unique_ptr<Muon> muon_of_host_partitions(StageContext& context, const FlatStates& states) {
  return std::make_unique<HostPartitions>(context, states);
}

}  // namespace shardmark
