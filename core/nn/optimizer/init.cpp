// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include <core/nn/kernels/kernel.hpp>
#include <core/nn/optimizer/init.hpp>
#include <core/numeric/half.hpp>
#include <core/random.hpp>

namespace shardmark {

namespace {

template<class T>
void init_typed(const Context& ctx, T* dst, std::int64_t elems, std::int64_t first_in_tensor,
                std::int64_t tensor, Init init, double std_dev, std::uint64_t seed,
                TensorSlice slice) {
  if (init != Init::uniform) {
    const float value = init == Init::ones ? 1.0f : 0.0f;
    kernel::for_each_elem(
        ctx, "shardmark::init_param_constant", elems,
        KOKKOS_LAMBDA(std::int64_t i) { round_to(dst[i], value); });
    return;
  }
  constexpr double two_sqrt3 = 2.0 * 1.7320508075688772;
  constexpr double unit = 1.0 / 9007199254740992.0;  // 2^-53
  // mix(seed, tensor, i) = splitmix64(start + i)
  const std::uint64_t start = splitmix64(seed << 32 | static_cast<std::uint64_t>(tensor)) +
                              static_cast<std::uint64_t>(slice.first);
  if (!slice.cuts()) slice.width = slice.pitch = first_in_tensor + elems;
  kernel::for_each_elem(
      ctx, "shardmark::init_param", elems, KOKKOS_LAMBDA(std::int64_t i) {
        const std::int64_t at = first_in_tensor + i;
        const std::int64_t whole = at / slice.width * slice.pitch + at % slice.width;
        const std::uint64_t bits = splitmix64(start + static_cast<std::uint64_t>(whole));
        const double u = static_cast<double>(bits >> 11) * unit;
        round_to(dst[i], static_cast<float>((u - 0.5) * two_sqrt3 * std_dev));
      });
}

template<class T>
std::uint64_t hash_typed(const Context& ctx, const T* p, std::int64_t elems,
                         std::int64_t first_global_elem) {
  constexpr std::int64_t chunk = 8192;
  const auto first = static_cast<std::uint64_t>(first_global_elem);
  std::uint64_t total = 0;
  Kokkos::parallel_reduce(
      "shardmark::state_hash", kernel::Range(ctx.space, 0, (elems + chunk - 1) / chunk),
      KOKKOS_LAMBDA(std::int64_t c, std::uint64_t & update) {
        const std::int64_t begin = c * chunk;
        const std::int64_t end = elems < begin + chunk ? elems : begin + chunk;
        std::uint64_t sum = 0;
        for (std::int64_t i = begin; i < end; ++i) {
          std::uint32_t bits = 0;
          const float value = widen(p[i]);
          std::memcpy(&bits, &value, sizeof bits);
          sum += splitmix64(splitmix64(first + static_cast<std::uint64_t>(i)) + bits);
        }
        update += sum;
      },
      total);
  return total;
}

}  // namespace

void init_param(const Context& ctx, Stored dst, std::int64_t elems, std::int64_t first_in_tensor,
                std::int64_t tensor, Init init, double std_dev, std::uint64_t seed,
                const TensorSlice& slice) {
  with_elements(
      [&](auto* to) {
        init_typed(ctx, to, elems, first_in_tensor, tensor, init, std_dev, seed, slice);
      },
      dst);
}

std::uint64_t state_hash(const Context& ctx, ConstStored p, std::int64_t elems,
                         std::int64_t first_global_elem) {
  return with_elements([&](auto* x) { return hash_typed(ctx, x, elems, first_global_elem); }, p);
}

}  // namespace shardmark
