// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include <core/plan/collective_scratch.hpp>
#include <core/plan/write/staged_collectives.hpp>

namespace shardmark {

std::int64_t StagedCollectives::bytes_of(int ranks, Op op, Dtype dtype, std::int64_t elems) const {
  return collective_scratch_bytes(op, dtype, elems, ranks, p_.reductions,
                                  profile_.staging_cap_bytes);
}

void StagedCollectives::need_over(int ranks, Op op, Dtype dtype, std::int64_t elems) {
  bytes_ = std::max(bytes_, bytes_of(ranks, op, dtype, elems));
}

void StagedCollectives::declare() {
  if (bytes_ > 0) scratch_ = w_.slot("staging", Category::staging, Dtype::uint8, bytes_);
}

Event& StagedCollectives::issue(Op op, Reduction reduction, Operand send, Operand receive,
                                std::span<const int> params, int root, int group) {
  send.reads = true, send.writes = false;
  receive.writes = true, receive.reads = false;
  const Dtype dtype = w_[send.slot].dtype;
  const std::int64_t elems = std::max(send.elems, receive.elems);
  std::vector<Operand> operands{send, receive};
  const std::int64_t scratch = bytes_of(size_of(group), op, dtype, elems);
  if (scratch > 0) operands.push_back(w_.write(scratch_, 0, scratch));
  return w_.collective(op, reduction, dtype, elems, operands, params, group, root);
}

}  // namespace shardmark
