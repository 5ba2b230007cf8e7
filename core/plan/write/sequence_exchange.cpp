// SPDX-License-Identifier: Apache-2.0
#include <core/plan/deck/checked.hpp>
#include <core/plan/write/sequence_exchange.hpp>

namespace shardmark {

SequenceExchange::SequenceExchange(Program& program, PlanWriter& writer) : p_(program), w_(writer) {
  if (!divides()) return;
  const TransformerDims d = transformer_dims(p_);
  q_ = checked_mul(d.rows(), d.q_dim(), "attention");
  kv_ = checked_mul(d.rows(), d.exchanged_kv_dim(), "attention");
  own_kv_ = d.rows() * d.kv_dim();
  positions_ = w_.slot("positions", Category::activation, Dtype::int64,
                       checked_mul(d.rows(), d.sequence_part.ranks, "positions"));
  sent_ = w_.slot("exchange.sent", Category::activation, d.dtype, q_);
  received_ = w_.slot("exchange.received", Category::activation, d.dtype, q_);
}

Operand SequenceExchange::own_positions() const {
  const std::int64_t own = w_[positions_].elems / p_.mesh.sequence_ranks();
  return w_.write(positions_, own * p_.mesh.sequence_rank(), own);
}

void SequenceExchange::compute(Kernel kernel, const AttentionPlace& at,
                               std::initializer_list<Operand> operands) {
  Event& e = w_.compute(kernel, operands);
  e.unit = at.unit;
  e.module = at.module;
}

// Tensors in `saved` are counted in its elements, and those in the workspace in bytes.
Operand SequenceExchange::part(int slot, std::int64_t bytes, std::int64_t elems) const {
  const std::int64_t size = dtype_bytes(w_[slot].dtype);
  return w_.read(slot, bytes / size, elems * dtype_bytes(w_[sent_].dtype) / size);
}

void SequenceExchange::exchange(const AttentionPlace& at, Way way, int slot, Value value,
                                std::int64_t from, std::int64_t into) {
  const bool to_heads = way == Way::to_heads, keys = value == Value::k || value == Value::v;
  const std::int64_t elems = keys ? kv_ : q_, own = keys ? own_kv_ : q_;
  compute(to_heads ? Kernel::split_heads : Kernel::split_tokens, at,
          {w_.write(sent_, 0, elems), part(slot, from, to_heads ? own : elems)});
  w_.collective(Op::all_to_all, Reduction::none, w_.read(sent_, 0, elems),
                w_.write(received_, 0, elems), {}, p_.sequence_group);
  compute(to_heads ? Kernel::join_tokens : Kernel::join_heads, at,
          {w_.write(part(slot, into, to_heads ? elems : own)), w_.read(received_, 0, elems)});
}

void SequenceExchange::forward(const AttentionPlace& at) {
  const EnumArray<Value, std::int64_t> s = block_saved(transformer_dims(p_)).at;
  // DeepSpeed gathers them in each layer, for kernels that derive masks from them.
  w_.collective(Op::all_gather, Reduction::none, own_positions(), w_.write(positions_), {},
                p_.sequence_group);
  w_.ensure({sent_, received_});
  for (const Value x : {Value::q, Value::k, Value::v})
    exchange(at, Way::to_heads, at.saved, x, s[x], s[x]);
  compute(Kernel::attention, at, {w_.update(at.saved), w_.write(at.workspace)});
  exchange(at, Way::to_tokens, at.saved, Value::context, s[Value::context], s[Value::attention]);
  w_.drop({received_, sent_});
}

void SequenceExchange::backward(const AttentionPlace& at) {
  const EnumArray<Value, std::int64_t> d = block_backward_workspace(transformer_dims(p_)).d;
  w_.ensure({sent_, received_});
  exchange(at, Way::to_heads, at.workspace, Value::context, d[Value::context], d[Value::context]);
  compute(Kernel::attention_backward, at, {w_.read(at.saved), w_.update(at.workspace)});
  for (const Value x : {Value::v, Value::k, Value::q})
    exchange(at, Way::to_tokens, at.workspace, x, d[x], d[x]);
  w_.drop({received_, sent_});
}

}  // namespace shardmark
