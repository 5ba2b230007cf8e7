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

template<class T>
void spread(const Context& ctx, const TransformerDims& dims, const LatentHeads<const T*>& from,
            T* k, T* v) {
  const LatentSpec& latent = dims.decoder->attention.latent;
  const std::int64_t heads = dims.heads, d = dims.head_dim(), plain = latent.plain_dim;
  const std::int64_t values = latent.value_dim, width = plain + values;
  kernel::for_each_row(
      ctx, "shardmark::arrange_heads", dims.rows(),
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r) {
        const T *made = from.made + r * heads * width,
                *shared = from.shared + r * from.shared_stride;
        for (std::int64_t head = 0; head < heads; ++head) {
          const T* own = made + head * width;
          T *key = k + (r * heads + head) * d, *value = v + (r * heads + head) * d;
          row.loop(d, [&](std::int64_t j) {
            key[j] = j < plain ? own[j] : shared[j - plain];
            value[j] = j < values ? own[plain + j] : T{};
          });
        }
      });
}

template<class T>
void collect(const Context& ctx, const TransformerDims& dims, const T* dk, const T* dv,
             const LatentHeads<T*>& to) {
  const LatentSpec& latent = dims.decoder->attention.latent;
  const std::int64_t heads = dims.heads, d = dims.head_dim(), plain = latent.plain_dim;
  const std::int64_t width = plain + latent.value_dim, rotary = latent.rotary_dim;
  kernel::for_each_row(
      ctx, "shardmark::arrange_heads", dims.rows(),
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r) {
        const T *of_keys = dk + r * heads * d, *of_values = dv + r * heads * d;
        for (std::int64_t head = 0; head < heads; ++head) {
          const T *key = of_keys + head * d, *value = of_values + head * d;
          T* made = to.made + (r * heads + head) * width;
          row.loop(width, [&](std::int64_t j) { made[j] = j < plain ? key[j] : value[j - plain]; });
        }
        row.loop(rotary, [&](std::int64_t j) {
          float sum = 0;
          for (std::int64_t head = 0; head < heads; ++head)
            sum += widen(of_keys[head * d + plain + j]);
          round_to(to.shared[r * to.shared_stride + j], sum);
        });
      });
}

template<class T>
void resize(const Context& ctx, std::int64_t rows, std::int64_t heads, const T* from,
            std::int64_t from_channels, T* to, std::int64_t to_channels) {
  kernel::for_each_row(
      ctx, "shardmark::arrange_heads", rows, KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r) {
        for (std::int64_t head = r * heads; head < (r + 1) * heads; ++head) {
          const T* source = from + head * from_channels;
          T* target = to + head * to_channels;
          row.loop(to_channels,
                   [&](std::int64_t j) { target[j] = j < from_channels ? source[j] : T{}; });
        }
      });
}

}  // namespace

void arrange_heads(const Context& ctx, const TransformerDims& dims, ConstStored from, Stored to,
                   bool joined) {
  if (dims.heads == 0) return;
  with_elements([&](auto*... data) { arrange(ctx, dims, data..., joined); }, from, to);
}

void spread_latent(const Context& ctx, const TransformerDims& dims,
                   const LatentHeads<ConstStored>& from, Stored k, Stored v) {
  with_storage(k.dtype, [&](auto type) {
    using T = decltype(type);
    const LatentHeads<const T*> typed{from.made.as<T>(), from.shared.as<T>(), from.shared_stride};
    spread(ctx, dims, typed, k.as<T>(), v.as<T>());
  });
}

void collect_latent(const Context& ctx, const TransformerDims& dims, ConstStored dk, ConstStored dv,
                    const LatentHeads<Stored>& gradient) {
  with_storage(dk.dtype, [&](auto type) {
    using T = decltype(type);
    const LatentHeads<T*> to{gradient.made.as<T>(), gradient.shared.as<T>(),
                             gradient.shared_stride};
    collect(ctx, dims, dk.as<T>(), dv.as<T>(), to);
  });
}

void resize_heads(const Context& ctx, const TransformerDims& dims, ConstStored from,
                  std::int64_t from_channels, Stored to, std::int64_t to_channels) {
  with_elements(
      [&](auto* x, auto* y) {
        resize(ctx, dims.rows(), dims.heads, x, from_channels, y, to_channels);
      },
      from, to);
}

}  // namespace shardmark
