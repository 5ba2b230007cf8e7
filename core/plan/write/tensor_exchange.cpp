// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include <core/plan/collective_scratch.hpp>
#include <core/plan/write/tensor_exchange.hpp>

namespace shardmark {

void TensorExchange::declare(Dtype dtype, std::int64_t elems, const Profile& profile) {
  const std::int64_t bytes =
      collective_scratch_bytes(Op::all_reduce, dtype, elems, p_.size_of(p_.tensor_group),
                               p_.reductions, profile.staging_cap_bytes);
  if (bytes > 0) scratch_ = w_.slot("partial_staging", Category::staging, Dtype::uint8, bytes);
}

void TensorExchange::sum(Operand data) {
  std::optional<Operand> scratch;
  if (scratch_ != no_slot) scratch = w_.write(scratch_);
  w_.collective(Op::all_reduce, Reduction::sum, data, data, {}, p_.tensor_group, -1, scratch);
}

std::vector<Operand> TensorExchange::begin_gradients(std::span<const Operand> grads) {
  std::vector<Operand> parts(grads.begin(), grads.end());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].reads) continue;
    if (parts_.size() <= i) parts_.resize(i + 1, no_slot);
    if (parts_[i] == no_slot)
      parts_[i] =
          w_.slot("partial_gradient", Category::staging, w_[parts[i].slot].dtype, parts[i].elems);
    w_.acquire(parts_[i]);
    parts[i] = w_.write(parts_[i]);
  }
  return parts;
}

void TensorExchange::sum_gradients(std::span<const Operand> parts, std::span<const Operand> grads) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    sum(parts[i]);
    if (parts[i].slot == grads[i].slot) continue;
    w_.accumulate(grads[i], w_.read(parts[i].slot));
    w_.release(parts[i].slot);
  }
}

void TensorExchange::gather(Operand own, Operand whole) {
  w_.collective(Op::all_gather, Reduction::none, own, whole, {}, p_.tensor_group);
}

}  // namespace shardmark
