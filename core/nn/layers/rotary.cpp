// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numbers>

#include <core/error.hpp>
#include <core/nn/kernels/math.hpp>
#include <core/nn/kernels/rows.hpp>
#include <core/nn/layers/rotary.hpp>
#include <core/plan/deck/decoder_modules.hpp>

namespace shardmark {
namespace {

constexpr std::int64_t pairs_at_once = 64;  // pairs whose sines one thread keeps at a time

template<class T>
KOKKOS_INLINE_FUNCTION void turn_pair(T& low, T& high, float cos, float sin) {
  const float a = widen(low), b = widen(high);
  round_to(low, a * cos - b * sin);
  round_to(high, b * cos + a * sin);
}

// The rows of q or of k: heads of `channels` channels each.
template<class T>
struct Heads {
  T* data;
  std::int64_t stride, count, channels;
};

// Pairs [begin, begin + count) of every head of one row.
template<class T>
KOKKOS_INLINE_FUNCTION void rotate_heads(const Heads<T>& x, std::int64_t r, const Rotation& t,
                                         std::int64_t begin, std::int64_t count, const float* cos,
                                         const float* sin) {
  for (std::int64_t head = 0; head < x.count; ++head) {
    T* channels = x.data + r * x.stride + head * x.channels;
    if (t.neighbours) {
      for (std::int64_t j = 0; j < count; ++j)
        turn_pair(channels[2 * (begin + j)], channels[2 * (begin + j) + 1], cos[j], sin[j]);
      continue;
    }
    T *low = channels + begin, *high = low + t.pairs;
    kernel::simd_loop(count, [&](std::int64_t j) { turn_pair(low[j], high[j], cos[j], sin[j]); });
  }
}

// The sine and cosine of pair j. Angles are computed in double; in fp32 they would have the
// rounding error of the position.
KOKKOS_INLINE_FUNCTION CosSin turn_of(const Rotation& t, double position, std::int64_t j) {
  const CosSin turn = cos_sin_f32(position * t.frequency[j]);
  return {turn.cos * t.length, turn.sin * t.length};
}

template<class T>
KOKKOS_INLINE_FUNCTION void rotate_row(const kernel::ThreadRow&, const Rotation& t, double position,
                                       std::int64_t r, const Heads<T>& q, const Heads<T>& k) {
  float cos[pairs_at_once], sin[pairs_at_once];
  for (std::int64_t begin = 0; begin < t.pairs; begin += pairs_at_once) {
    const std::int64_t count = t.pairs - begin < pairs_at_once ? t.pairs - begin : pairs_at_once;
    kernel::simd_loop(count, [&](std::int64_t j) {
      const CosSin turn = turn_of(t, position, begin + j);
      cos[j] = turn.cos;
      sin[j] = turn.sin;
    });
    rotate_heads(q, r, t, begin, count, cos, sin);
    rotate_heads(k, r, t, begin, count, cos, sin);
  }
}

// Each lane has pair j of every head, so that it computes the sine of that pair once.
template<class T>
KOKKOS_INLINE_FUNCTION void rotate_by_pairs(const kernel::WarpRow& row, const Rotation& t,
                                            double position, std::int64_t r, const Heads<T>& q,
                                            const Heads<T>& k) {
  row.loop(t.pairs, [&](std::int64_t j) {
    const CosSin turn = turn_of(t, position, j);
    const std::int64_t low = t.neighbours ? 2 * j : j, high = t.neighbours ? low + 1 : j + t.pairs;
    const auto turn_heads = [&](const Heads<T>& x) {
      for (std::int64_t head = 0; head < x.count; ++head) {
        T* channels = x.data + r * x.stride + head * x.channels;
        turn_pair(channels[low], channels[high], turn.cos, turn.sin);
      }
    };
    turn_heads(q);
    turn_heads(k);
  });
}

// Each lane has the same run of pairs of several heads.
template<class T>
KOKKOS_INLINE_FUNCTION void rotate_by_runs(const kernel::WarpRow& row, const Rotation& t,
                                           double position, std::int64_t r, const Heads<T>& q,
                                           const Heads<T>& k) {
  const std::int64_t runs = t.pairs / kernel::run_elems, step = kernel::warp_lanes / runs;
  row.loop(kernel::warp_lanes, [&](std::int64_t lane) {
    const std::int64_t begin = lane % runs * kernel::run_elems;
    float cos[kernel::run_elems], sin[kernel::run_elems];
    for (int i = 0; i < kernel::run_elems; ++i) {
      const CosSin turn = turn_of(t, position, begin + i);
      cos[i] = turn.cos, sin[i] = turn.sin;
    }
    const auto turn_heads = [&](const Heads<T>& x) {
      for (std::int64_t head = lane / runs; head < x.count; head += step) {
        T* low = x.data + r * x.stride + head * x.channels + begin;
        T* high = low + t.pairs;
        float a[kernel::run_elems], b[kernel::run_elems];
        kernel::load_run(low, kernel::run_elems, a);
        kernel::load_run(high, kernel::run_elems, b);
        for (int i = 0; i < kernel::run_elems; ++i) {
          const float from_low = a[i], from_high = b[i];
          a[i] = from_low * cos[i] - from_high * sin[i];
          b[i] = from_high * cos[i] + from_low * sin[i];
        }
        kernel::store_run(low, kernel::run_elems, a);
        kernel::store_run(high, kernel::run_elems, b);
      }
    };
    turn_heads(q);
    turn_heads(k);
  });
}

template<class T>
KOKKOS_INLINE_FUNCTION void rotate_row(const kernel::WarpRow& row, const Rotation& t,
                                       double position, std::int64_t r, const Heads<T>& q,
                                       const Heads<T>& k) {
  const std::int64_t runs = t.pairs / kernel::run_elems;
  const bool whole = !t.neighbours && t.pairs % kernel::run_elems == 0 && runs > 0 &&
                     kernel::warp_lanes % runs == 0;
  if (whole)
    rotate_by_runs(row, t, position, r, q, k);
  else
    rotate_by_pairs(row, t, position, r, q, k);
}

template<class T>
void rotate_all(const Context& ctx, const TransformerDims& dims, const Heads<T>& q,
                const Heads<T>& k, const Rotation& rotation, bool back) {
  const std::int64_t sequence = dims.sequence;
  const double direction = back ? -1.0 : 1.0;
  kernel::for_each_row(
      ctx, back ? "shardmark::rotary_backward" : "shardmark::rotary_forward", dims.rows(),
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r) {
        rotate_row(row, rotation, direction * static_cast<double>(r % sequence), r, q, k);
      });
}

// Llama 3: wavelengths beyond the original positions are longer by the factor, short ones remain,
// and those between are blended.
double llama3_frequency(const RotarySpec& s, double frequency) {
  const double turns =
      static_cast<double>(s.original_positions) * frequency / (2 * std::numbers::pi);
  const double kept =
      std::clamp((turns - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor), 0.0, 1.0);
  return frequency * (kept + (1 - kept) / s.factor);
}

// YaRN: pairs that turn often over the original positions remain, pairs that turn seldom are slower
// by the factor, and a ramp over the pairs lies between.
double yarn_frequency(const RotarySpec& s, double channels, std::int64_t j, double frequency) {
  const auto pair_of = [&](double turns) {
    return channels *
           std::log(static_cast<double>(s.original_positions) / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(s.base));
  };
  double low = pair_of(s.beta_fast), high = pair_of(s.beta_slow);
  if (s.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, channels - 1);
  if (low == high) high += 0.001;
  const double slowed = std::clamp((static_cast<double>(j) - low) / (high - low), 0.0, 1.0);
  return frequency * (1 - slowed + slowed / s.factor);
}

}  // namespace

Rotation rotation_of(const TransformerDims& dims, std::int64_t layer) {
  RotarySpec s = dims.decoder->positions.rotary;
  const AttentionSpec& a = dims.decoder->attention;
  if (s.window_base > 0 && a.window > 0 && in_pattern(a.windowed, layer)) {
    s.base = s.window_base;
    s.scaling = RotaryScaling::none;
  }
  Rotation r;
  // An odd number of channels rounds up to pairs, as in transformers.
  const std::int64_t own = dims.decoder->latent() ? a.latent.rotary_dim : dims.head_dim();
  const auto channels = static_cast<std::int64_t>(static_cast<double>(own) * s.part + 1e-6);
  r.pairs = (channels + 1) / 2;
  if (r.pairs > Rotation::most_pairs)
    throw PlanError(
        "model.attention.head_dim: rotary positions have at most 512 channels per head");
  r.neighbours = s.neighbours;
  if (s.scaling == RotaryScaling::yarn) r.length = static_cast<float>(s.attention_factor);
  for (std::int64_t j = 0; j < r.pairs; ++j) {
    const double usual =
        std::pow(s.base, -static_cast<double>(2 * j) / static_cast<double>(channels));
    switch (s.scaling) {
      case RotaryScaling::none: r.frequency[j] = usual; break;
      case RotaryScaling::linear: r.frequency[j] = usual / s.factor; break;
      case RotaryScaling::llama3: r.frequency[j] = llama3_frequency(s, usual); break;
      case RotaryScaling::yarn:
        r.frequency[j] = yarn_frequency(s, static_cast<double>(channels), j, usual);
        break;
    }
  }
  return r;
}

void rotate(const Context& ctx, const TransformerDims& dims, const RotatedHeads& q,
            const RotatedHeads& k, const Rotation& rotation, bool back) {
  with_storage(q.first.dtype, [&](auto type) {
    using T = decltype(type);
    const auto typed = [](const RotatedHeads& x) -> Heads<T> {
      return {x.first.as<T>(), x.stride, x.count, x.channels};
    };
    rotate_all(ctx, dims, typed(q), typed(k), rotation, back);
  });
}

}  // namespace shardmark
