// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

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
  const std::int64_t bytes =
      bytes_of(size_of(group), op, w_[send.slot].dtype, std::max(send.elems, receive.elems));
  std::optional<Operand> scratch;
  if (bytes > 0) scratch = w_.write(scratch_, 0, bytes);
  return w_.collective(op, reduction, send, receive, params, group, root, scratch);
}

}  // namespace shardmark
