// SPDX-License-Identifier: Apache-2.0
#include <core/nn/kernels/rows.hpp>
#include <core/nn/layers/embedding.hpp>

namespace shardmark {
namespace {

constexpr std::int64_t columns_at_once = 2048;  // columns that one thread sums at a time, in fp32

template<class T>
KOKKOS_INLINE_FUNCTION void add_run(const T* x, int n, float factor,
                                    float (&sum)[kernel::run_elems]) {
  float values[kernel::run_elems];
  kernel::load_run(x, n, values);
  for (int i = 0; i < kernel::run_elems; ++i) sum[i] += factor * values[i];
}

// row[h] (+)= the rows of dx for which `rows` calls a function, in that order, in fp32 and rounded
// once.
template<class T, class Rows>
KOKKOS_INLINE_FUNCTION void add_rows(const kernel::ThreadRow& by, std::int64_t h, const T* dx,
                                     const Rows& rows, T* row, bool accumulate, float factor) {
  float sum[columns_at_once];
  for (std::int64_t j0 = 0; j0 < h; j0 += columns_at_once) {
    const std::int64_t count = h - j0 < columns_at_once ? h - j0 : columns_at_once;
    T* to = row + j0;
    if (accumulate)
      by.loop(count, [&](std::int64_t j) { sum[j] = widen(to[j]); });
    else
      by.loop(count, [&](std::int64_t j) { sum[j] = 0.0f; });
    rows([&](std::int64_t r) {
      const T* d = dx + r * h + j0;
      by.loop(count, [&](std::int64_t j) { sum[j] += factor * widen(d[j]); });
    });
    by.loop(count, [&](std::int64_t j) { round_to(to[j], sum[j]); });
  }
}

template<class T, class Rows>
KOKKOS_INLINE_FUNCTION void add_rows(const kernel::WarpRow& by, std::int64_t h, const T* dx,
                                     const Rows& rows, T* row, bool accumulate, float factor) {
  by.runs(h, [&](std::int64_t j, int n) {
    float sum[kernel::run_elems] = {};
    if (accumulate) kernel::load_run(row + j, n, sum);
    rows([&](std::int64_t r) { add_run(dx + r * h + j, n, factor, sum); });
    kernel::store_run(row + j, n, sum);
  });
}

template<class T>
void token_forward(const Context& ctx, const TransformerDims& dims, const std::int32_t* tokens,
                   const T* wte, T* x) {
  const std::int64_t h = dims.hidden, sequence = dims.sequence;
  const auto factor = static_cast<float>(dims.decoder->ends.embedding_factor);
  kernel::for_each_row(
      ctx, "shardmark::token_embedding_forward", dims.rows(),
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r) {
        const std::int64_t sample = r / sequence, position = r % sequence;
        const T* token = wte + std::int64_t{tokens[sample * (sequence + 1) + position]} * h;
        T* to = x + r * h;
        if (factor == 1)
          row.loop(h, [&](std::int64_t j) { to[j] = token[j]; });
        else
          row.loop(h, [&](std::int64_t j) { round_to(to[j], factor * widen(token[j])); });
      });
}

template<class T>
void position_forward(const Context& ctx, const TransformerDims& dims, const T* wpe, T* x) {
  const std::int64_t h = dims.hidden, sequence = dims.sequence;
  const std::int64_t offset = dims.decoder->positions.offset;
  kernel::for_each_row(
      ctx, "shardmark::position_embedding_forward", dims.rows(),
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r) {
        const T* place = wpe + (offset + r % sequence) * h;
        T* to = x + r * h;
        row.loop(h, [&](std::int64_t j) { round_to(to[j], widen(to[j]) + widen(place[j])); });
      });
}

KOKKOS_INLINE_FUNCTION bool occurs(const std::int32_t* ids, std::int64_t count,
                                   std::int32_t token) {
  std::int32_t found = 0;
  for (std::int64_t t = 0; t < count; ++t) found |= static_cast<std::int32_t>(ids[t] == token);
  return found != 0;
}

// Calls `f(r)` for each row r whose token is `token`, in the order of rows.
struct RowsOfToken {
  const std::int32_t* tokens;
  std::int32_t token;
  std::int64_t samples, sequence;

  template<class F>
  KOKKOS_INLINE_FUNCTION void operator()(const F& f) const {
    constexpr std::int64_t tokens_at_once =
        128;  // tokens that one vectorised comparison loop covers
    for (std::int64_t sample = 0; sample < samples; ++sample) {
      const std::int32_t* ids = tokens + sample * (sequence + 1);
      for (std::int64_t t0 = 0; t0 < sequence; t0 += tokens_at_once) {
        const std::int64_t t1 = t0 + tokens_at_once < sequence ? t0 + tokens_at_once : sequence;
        if (!occurs(ids + t0, t1 - t0, token)) continue;
        for (std::int64_t t = t0; t < t1; ++t)
          if (ids[t] == token) f(sample * sequence + t);
      }
    }
  }
};

// Calls `f(r)` for the row r of each sample that is at `position`, in the order of samples.
struct RowsAtPosition {
  std::int64_t position, samples, sequence;

  template<class F>
  KOKKOS_INLINE_FUNCTION void operator()(const F& f) const {
    for (std::int64_t sample = 0; sample < samples; ++sample) f(sample * sequence + position);
  }
};

/// The gradients of rows of wte by a team of a GPU. It reads all tokens once for its rows, since
/// most of a vocabulary is in no micro-batch. For a row that is there its threads list the places
/// of the token in their order, and each thread sums a run of columns over that list. One warp
/// would take too long for a token that many places share. The rows of a team are far apart,
/// because tokens that occur often are often neighbours.
template<class T>
struct TokenTeam {
  static constexpr int threads = 256;
  static constexpr int listed = 1024;  // places that are searched at a time
  static constexpr std::int64_t rows = 16;
  using List = Kokkos::View<std::int32_t*, Space::scratch_memory_space,
                            Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
  static std::size_t scratch_bytes() { return List::shmem_size(listed + 1); }

  const std::int32_t* tokens;  // samples x (sequence + 1)
  std::int64_t samples, sequence, h, vocab, padding;
  const T* dx;
  T* dwte;
  float factor;
  bool accumulate;

  KOKKOS_INLINE_FUNCTION void operator()(const kernel::Team& team) const {
    const std::int32_t first = team.league_rank(), teams = team.league_size();
    std::uint32_t there = 0;  // a bit for each of the team's rows
    Kokkos::parallel_reduce(
        Kokkos::TeamThreadRange(team, places()),
        [&](std::int64_t i, std::uint32_t& bits) {
          const std::int32_t token = tokens[i];
          if (token % teams == first && is_at(i, token)) bits |= 1u << (token / teams);
        },
        Kokkos::BOr<std::uint32_t>(there));
    const List list(team.team_scratch(0), listed + 1);
    for (std::int32_t token = first; token < vocab; token += teams)
      make_row(team, list, token, token != padding && (there >> (token / teams) & 1u) != 0);
  }

 private:
  KOKKOS_INLINE_FUNCTION void make_row(const kernel::Team& team, const List& list,
                                       std::int32_t token, bool found) const {
    if (!found && accumulate) return;
    T* to = dwte + std::int64_t{token} * h;
    const std::int64_t width = std::int64_t{team.team_size()} * kernel::run_elems;
    for (std::int64_t first = 0; first < h; first += width) {
      const std::int64_t j = first + std::int64_t{team.team_rank()} * kernel::run_elems;
      const int n = j < h ? kernel::elems_of_run(j, h) : 0;
      float sum[kernel::run_elems] = {};
      if (accumulate) kernel::load_run(to + j, n, sum);
      if (found) add_places(team, list, token, j, n, sum);
      kernel::store_run(to + j, n, sum);
    }
  }
  KOKKOS_INLINE_FUNCTION std::int64_t places() const { return samples * (sequence + 1); }
  // The last token of a sample is only a target.
  KOKKOS_INLINE_FUNCTION bool is_at(std::int64_t i, std::int32_t token) const {
    return tokens[i] == token && i % (sequence + 1) != sequence;
  }
  // Adds elements [j, j + n) of the rows of the listed places after `begin`, four of which are on
  // their way at once.
  KOKKOS_INLINE_FUNCTION void add_listed(const List& list, std::int64_t begin, std::int64_t j,
                                         int n, float (&sum)[kernel::run_elems]) const {
    constexpr std::int32_t at_once = 4;
    for (std::int32_t first = 0, count = list(listed); first < count; first += at_once) {
      float values[at_once][kernel::run_elems];
      for (std::int32_t k = 0; k < at_once; ++k) {
        const std::int64_t i = begin + list(first + k < count ? first + k : first);
        const std::int64_t r = i / (sequence + 1) * sequence + i % (sequence + 1);
        kernel::load_run(dx + r * h + j, n, values[k]);
      }
      for (std::int32_t k = 0; k < at_once; ++k)
        for (int l = 0; first + k < count && l < kernel::run_elems; ++l)
          sum[l] += factor * values[k][l];
    }
  }
  // Adds elements [j, j + n) of the rows of the token. All threads must call it.
  KOKKOS_INLINE_FUNCTION void add_places(const kernel::Team& team, const List& list,
                                         std::int32_t token, std::int64_t j, int n,
                                         float (&sum)[kernel::run_elems]) const {
    for (std::int64_t begin = 0; begin < places(); begin += listed) {
      const std::int64_t end = places() - begin < listed ? places() : begin + listed;
      Kokkos::parallel_scan(Kokkos::TeamThreadRange(team, begin, end),
                            [&](std::int64_t i, std::int32_t& before, bool last) {
                              const bool is = is_at(i, token);
                              if (last && is) list(before) = static_cast<std::int32_t>(i - begin);
                              before += static_cast<std::int32_t>(is);
                              if (last && i + 1 == end) list(listed) = before;
                            });
      team.team_barrier();
      add_listed(list, begin, j, n, sum);
      team.team_barrier();
    }
  }
};

template<class T>
void token_backward_by_teams(const Context& ctx, const TransformerDims& dims,
                             const std::int32_t* tokens, const T* dx, T* dwte, bool accumulate) {
  const TokenTeam<T> body{tokens,
                          dims.micro_batch,
                          dims.sequence,
                          dims.hidden,
                          dims.vocab,
                          dims.decoder->ends.padding_token,
                          dx,
                          dwte,
                          static_cast<float>(dims.decoder->ends.embedding_factor),
                          accumulate};
  const std::int64_t teams = (dims.vocab + TokenTeam<T>::rows - 1) / TokenTeam<T>::rows;
  const auto policy =
      kernel::team_policy(ctx, teams, TokenTeam<T>::threads, 1, TokenTeam<T>::scratch_bytes(), body,
                          Kokkos::ParallelForTag());
  Kokkos::parallel_for("shardmark::token_embedding_backward", policy, body);
  ctx.progress();
}

// One iteration per row of wte, and each reads all tokens. These vocab * rows integer comparisons,
// 16 or more per cycle, are far cheaper than the irregular writes of a sort.
template<class T>
void token_backward(const Context& ctx, const TransformerDims& dims, const std::int32_t* tokens,
                    const T* dx, T* dwte, bool accumulate) {
  if constexpr (kernel::rows_are_warps)
    return token_backward_by_teams(ctx, dims, tokens, dx, dwte, accumulate);
  const std::int64_t h = dims.hidden, sequence = dims.sequence, samples = dims.micro_batch;
  const auto factor = static_cast<float>(dims.decoder->ends.embedding_factor);
  const std::int64_t padding = dims.decoder->ends.padding_token;
  kernel::for_each_row(
      ctx, "shardmark::token_embedding_backward", dims.vocab,
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t v) {
        const auto token = static_cast<std::int32_t>(v);
        T* to = dwte + v * h;
        bool found = false;
        for (std::int64_t sample = 0; v != padding && sample < samples; ++sample)
          found = found || occurs(tokens + sample * (sequence + 1), sequence, token);
        if (found)
          add_rows(row, h, dx, RowsOfToken{tokens, token, samples, sequence}, to, accumulate,
                   factor);
        else if (!accumulate)
          row.loop(h, [&](std::int64_t j) { to[j] = T{}; });
      });
}

template<class T>
void position_backward(const Context& ctx, const TransformerDims& dims, const T* dx, T* dwpe,
                       bool accumulate) {
  const std::int64_t h = dims.hidden, sequence = dims.sequence, samples = dims.micro_batch;
  const PositionSpec& p = dims.decoder->positions;
  const std::int64_t offset = p.offset, table = p.rows > 0 ? p.rows : offset + sequence;
  kernel::for_each_row(
      ctx, "shardmark::position_embedding_backward", table,
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t t) {
        const std::int64_t position = t - offset;
        T* to = dwpe + t * h;
        if (position >= 0 && position < sequence)
          add_rows(row, h, dx, RowsAtPosition{position, samples, sequence}, to, accumulate, 1.0f);
        else if (!accumulate)
          row.loop(h, [&](std::int64_t j) { to[j] = T{}; });
      });
}

}  // namespace

void token_embedding_forward(const Context& ctx, const TransformerDims& dims,
                             const std::int32_t* tokens, ConstStored wte, Stored x) {
  with_elements([&](auto*... data) { token_forward(ctx, dims, tokens, data...); }, wte, x);
}

void position_embedding_forward(const Context& ctx, const TransformerDims& dims, ConstStored wpe,
                                Stored x) {
  with_elements([&](auto*... data) { position_forward(ctx, dims, data...); }, wpe, x);
}

void token_embedding_backward(const Context& ctx, const TransformerDims& dims,
                              const std::int32_t* tokens, ConstStored dx, Stored dwte,
                              bool accumulate) {
  with_elements([&](auto*... data) { token_backward(ctx, dims, tokens, data..., accumulate); }, dx,
                dwte);
}

void position_embedding_backward(const Context& ctx, const TransformerDims& dims, ConstStored dx,
                                 Stored dwpe, bool accumulate) {
  with_elements([&](auto*... data) { position_backward(ctx, dims, data..., accumulate); }, dx,
                dwpe);
}

}  // namespace shardmark
