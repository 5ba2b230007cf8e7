// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <core/error.hpp>
#include <core/plan/deck/quantized.hpp>
#include <core/plan/deepspeed/stage3/quantized_reduce.hpp>
#include <core/plan/partition/gradient_groups.hpp>
#include <core/plan/write/rank_groups.hpp>
#include <core/text.hpp>

namespace shardmark {
namespace {

constexpr std::string_view qgz_key = "deepspeed.zero_optimization.zero_quantized_gradients";

}  // namespace

QuantizedReduce::QuantizedReduce(StageContext& context) : StagePart(context) {
  held_.fill(no_slot);
  if (!c_.knobs.quantized_gradients) return;
  const std::int64_t ranks = ranks_of_node(c_.deck, c_.profile.ranks_per_node);
  if (c_.world() <= ranks) return;
  if (c_.world() % ranks != 0)
    throw DeckError(fmt::format(
        "{}: {} = true: {} ranks are no whole number of nodes of {}: DeepSpeed cannot build the "
        "groups of its all-to-alls: use a multiple of {} ranks, or remove the key",
        c_.deck.path, qgz_key, c_.world(), ranks, ranks));
  if (c_.precision.comm != Dtype::fp16)
    throw DeckError(fmt::format(
        "{}: {} = true: gradients are sent as {}, and DeepSpeed's kernels read them as fp16 "
        "without converting them: enable fp16, or set communication_data_type to \"fp16\"",
        c_.deck.path, qgz_key, to_string(c_.precision.comm)));
  node_ranks_ = static_cast<int>(ranks);
  nodes_ = c_.world() / node_ranks_;
  within_ = add_block(c_.program, "node", node_ranks_);
  between_ = add_stride(c_.program, "nodes", node_ranks_);
  gradients_.resize(c_.program.model.params.size());
}

bool QuantizedReduce::quantizes(int id) const {
  const Param& p = c_.param(id);
  const GradientGroups g = gradient_groups(p.shape, p.elems, c_.world());
  if (!g.possible)
    throw DeckError(fmt::format(
        "{}: {} = true: DeepSpeed fails on {}, {}: it quantizes {} groups of {} elements, and can "
        "do so only if {} ranks divide the groups and a group has a multiple of 8 elements, at "
        "most 40960: change the sizes of the model or the number of ranks, or remove the key",
        c_.deck.path, qgz_key, p.name, join(p.shape, " x "), g.groups, g.group_elems, c_.world()));
  return g.groups > 0;
}

QuantizedReduce::Gradient& QuantizedReduce::declare(int id) {
  Gradient& g = gradients_[static_cast<std::size_t>(id)];
  if (g.shard != no_slot) return g;
  const Param& p = c_.param(id);
  const std::int64_t groups = gradient_groups(p.shape, p.elems, c_.world()).groups;
  const auto slot = [&](std::string_view what, Dtype dtype, std::int64_t elems) {
    return w_.slot(fmt::format("{}.{}", what, p.name), Category::bucket, dtype, elems);
  };
  const auto pair = [&](Buffer values, const std::string& what, std::int64_t among) {
    g.slots[values] = slot("int4_" + what, Dtype::int8, p.elems / 2 / among);
    g.slots[values + 1] = slot("scales_" + what, Dtype::fp32, groups / among);
  };
  pair(sent, "sent", 1);
  pair(received, "received", 1);
  pair(node_sums, "node", node_ranks_);
  pair(exchanged, "nodes", node_ranks_);
  g.slots[restored] = slot("restored", Dtype::fp16, p.elems / node_ranks_);
  g.sum = slot("sum", Dtype::fp16, p.elems / c_.world());
  g.shard = slot("average", Dtype::fp16, p.elems / c_.world());
  return g;
}

// The variable `b` now holds this gradient's buffer, and no longer that of the gradient before.
void QuantizedReduce::hold(const Gradient& g, Buffer b) {
  if (held_[b] != no_slot) w_.release(held_[b]);
  held_[b] = g.slots[b];
}

// DeepSpeed allocates what is received, and only then lets go of what the variables held.
void QuantizedReduce::exchange(const Gradient& g, Buffer from, Buffer into, int id, int group) {
  for (int i = 0; i < 2; ++i) {
    const auto b = static_cast<Buffer>(into + i);
    w_.acquire(g.slots[b]);
    hold(g, b);
  }
  for (int i = 0; i < 2; ++i)
    collectives_.issue(Op::all_to_all, Reduction::none, w_.read(g.slots[from + i]),
                       w_.write(g.slots[into + i]),
                       i == 0 ? std::vector<int>{id} : std::vector<int>{}, -1, group);
}

Operand QuantizedReduce::reduce(int id, Operand grad) {
  const Gradient& g = declare(id);
  const auto read = [&](Buffer b) { return w_.read(g.slots[b]); };
  const auto write = [&](Buffer b) { return w_.write(g.slots[b]); };
  const auto made = [&](std::initializer_list<Buffer> list, Event& event, int group) {
    event.group = group;
    for (const Buffer b : list) hold(g, b);
  };
  const auto acquire = [&](std::initializer_list<Buffer> list) {
    for (const Buffer b : list) w_.acquire(g.slots[b]);
  };

  acquire({sent_scales, sent});
  made({sent, sent_scales},
       w_.compute(Kernel::quantize_int4, {write(sent), write(sent_scales), w_.read(grad)}),
       within_);
  exchange(g, sent, received, id, within_);
  acquire({node_scales, node_sums});
  made({node_sums, node_scales},
       w_.compute(Kernel::reduce_int4,
                  {write(node_sums), write(node_scales), read(received), read(received_scales)},
                  {&id, 1}),
       within_);
  exchange(g, node_sums, exchanged, id, between_);
  acquire({restored});
  made({restored},
       w_.compute(Kernel::dequantize_int4,
                  {write(restored), read(exchanged), read(exchanged_scales)}),
       0);
  w_.acquire(g.sum);
  w_.compute(Kernel::sum_parts, {w_.write(g.sum), read(restored)}, {&id, 1}).group = between_;
  w_.acquire(g.shard);
  w_.convert(w_.write(g.shard), w_.read(g.sum), c_.world());
  w_.release(g.sum);
  return w_.read(g.shard);
}

void QuantizedReduce::finish() {
  for (int& slot : held_) {
    if (slot != no_slot) w_.release(slot);
    slot = no_slot;
  }
}

}  // namespace shardmark
