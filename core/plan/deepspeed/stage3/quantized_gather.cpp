// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <core/error.hpp>
#include <core/plan/deck/checked.hpp>
#include <core/plan/deepspeed/stage3/quantized_gather.hpp>
#include <core/plan/partition/weight_groups.hpp>

namespace shardmark {

QuantizedGather::Message& QuantizedGather::declare(const std::string& name, std::int64_t elems,
                                                   int ranks) {
  const auto [it, fresh] = messages_.try_emplace({name, ranks});
  Message& m = it->second;
  if (!fresh) return m;
  const std::int64_t group = weight_group_elems(elems);
  if (group == 0)
    throw DeckError(fmt::format(
        "{}: deepspeed.zero_optimization.zero_quantized_weights = true: a rank sends {} elements "
        "of {}, and DeepSpeed quantizes multiples of 8 only: use a number of ranks with which each "
        "rank has a multiple of 8 of every parameter, or remove the key",
        c_.deck.path, elems, name));
  const std::string among = ranks == c_.world() ? name : fmt::format("{}.of{}", name, ranks);
  const auto slot = [&](const char* what, Dtype dtype, std::int64_t count) {
    return w_.slot(fmt::format("{}.{}", what, among), Category::gathered, dtype, count);
  };
  const std::int64_t scales = elems / group;
  if (c_.precision.model != Dtype::fp16) m.half = slot("half", Dtype::fp16, elems);
  m.own = slot("quantized_own", Dtype::int8, elems);
  m.own_scales = slot("scales_own", Dtype::fp32, scales);
  m.all = slot("quantized", Dtype::int8, checked_mul(elems, ranks, "gathered parameters"));
  m.all_scales = slot("scales", Dtype::fp32, scales * ranks);
  return m;
}

void QuantizedGather::start(const std::string& name, Operand own, const std::vector<int>& params,
                            int group, int ranks) {
  const Message& m = declare(name, own.elems, ranks);
  w_.acquire(m.all);
  Operand from = own;
  if (m.half != no_slot) {
    w_.acquire(m.half);
    w_.convert(w_.write(m.half), own);
    from = w_.read(m.half);
  }
  w_.acquire(m.own);
  w_.acquire(m.own_scales);
  w_.compute(Kernel::quantize, {w_.write(m.own), w_.write(m.own_scales), from});
  if (m.half != no_slot) w_.release(m.half);
  w_.acquire(m.all_scales);
  collectives_.issue(Op::all_gather, Reduction::none, w_.read(m.own), w_.write(m.all), params, -1,
                     group);
  collectives_.issue(Op::all_gather, Reduction::none, w_.read(m.own_scales), w_.write(m.all_scales),
                     {}, -1, group);
}

void QuantizedGather::finish(const std::string& name, int ranks, int into) {
  const Message& m = messages_.at({name, ranks});
  w_.compute(Kernel::dequantize, {w_.write(into), w_.read(m.all), w_.read(m.all_scales)});
  for (int slot : {m.all, m.all_scales, m.own, m.own_scales}) w_.release(slot);
}

}  // namespace shardmark
