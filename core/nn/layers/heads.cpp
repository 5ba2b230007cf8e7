// SPDX-License-Identifier: Apache-2.0
#include <core/nn/kernels/rows.hpp>
#include <core/nn/layers/heads.hpp>

namespace shardmark {
namespace {

template<class T>
void arrange(const Context& ctx, const TransformerDims& dims, const T* all_from, T* all_to,
             bool joined) {
  const std::int64_t heads = dims.heads, kv_heads = dims.kv_heads, group = heads / kv_heads;
  const std::int64_t d = dims.head_dim(), width = (heads + 2 * kv_heads) * d;
  kernel::for_each_row(
      ctx, "shardmark::arrange_heads", dims.rows(),
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r) {
        const T* from = all_from + r * width;
        T* to = all_to + r * width;
        for (std::int64_t kv = 0; kv < kv_heads; ++kv)
          for (std::int64_t member = 0; member < group + 2; ++member) {
            const std::int64_t grouped = (kv * (group + 2) + member) * d;
            const std::int64_t head =
                member < group ? kv * group + member : heads + (member - group) * kv_heads + kv;
            const T* source = from + (joined ? grouped : head * d);
            T* target = to + (joined ? head * d : grouped);
            row.loop(d, [&](std::int64_t j) { target[j] = source[j]; });
          }
      });
}

}  // namespace

void arrange_heads(const Context& ctx, const TransformerDims& dims, ConstStored from, Stored to,
                   bool joined) {
  with_storage(from.dtype, [&](auto type) {
    using T = decltype(type);
    arrange(ctx, dims, from.as<T>(), to.as<T>(), joined);
  });
}

}  // namespace shardmark
