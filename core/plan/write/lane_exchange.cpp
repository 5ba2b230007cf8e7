// SPDX-License-Identifier: Apache-2.0
#include <core/plan/write/lane_exchange.hpp>

namespace shardmark {

LaneExchange::LaneExchange(Program& program, PlanWriter& writer, TensorExchange& tensors)
    : p_(program), w_(writer), tensors_(tensors) {}

void LaneExchange::declare(const TransformerDims& dims, int home) {
  if (!p_.folds()) return;
  lanes_ = row_lanes(dims);
  home_ = home;
  const auto slot = [&](const char* name, Dtype dtype, std::int64_t elems) {
    return w_.slot(name, Category::activation, dtype, elems);
  };
  tokens_ = slot("pairs.tokens", Dtype::int64, lanes_.all_places());
  choices_ = slot("pairs.choices", Dtype::int64, lanes_.all_places());
  weights_ = slot("pairs.weights", dims.dtype, lanes_.all_places());
  pairs_ = slot("lanes.pairs", Dtype::int64, lanes_.count);
}

void LaneExchange::begin(bool forward) {
  w_.acquire(weights_);
  if (!forward) return;
  for (const int slot : {tokens_, choices_, pairs_}) w_.acquire(slot);
}

void LaneExchange::end(bool forward) {
  w_.release(weights_);
  if (!forward) return;
  for (const int slot : {tokens_, choices_, pairs_}) w_.release(slot);
}

Operand LaneExchange::lane(int slot, std::int64_t lane) const {
  const std::int64_t elems = w_[slot].elems / lanes_.count;
  return w_.update(slot, lane * elems, elems);
}

// DeepSpeed asks how many rows each lane has before it gathers them, for each tensor again.
void LaneExchange::gather_rows(int slot) {
  for (const int gathered : {pairs_, slot})
    tensors_.gather(lane(gathered, lanes_.own), w_.write(gathered));
}

void LaneExchange::gather() {
  for (const int slot : {home_, tokens_, choices_, weights_}) gather_rows(slot);
}

void LaneExchange::sum() {
  for (const int slot : {weights_, home_})
    for (std::int64_t l = 0; l < lanes_.count; ++l) tensors_.sum(lane(slot, l));
}

}  // namespace shardmark
