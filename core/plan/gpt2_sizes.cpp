// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <core/plan/checked.hpp>
#include <core/plan/gpt2_sizes.hpp>

namespace shardmark {
namespace {

constexpr std::int64_t line_elems = 16;  // fp32 elements of a 64-byte line

std::int64_t mul(std::int64_t a, std::int64_t b) {
  return checked_mul(a, b, "model: gpt2 sizes");
}

// Hands out offsets one after another. `align` 1: without gaps.
class Offsets {
 public:
  explicit Offsets(std::int64_t align, std::int64_t first = 0) : align_(align), end_(first) {}

  std::int64_t take(std::int64_t elems) {
    const std::int64_t at = end_;
    end_ = round_up(checked_add(end_, elems, "model: gpt2 sizes"), align_, "model: gpt2 sizes");
    return at;
  }
  std::int64_t end() const { return end_; }

 private:
  std::int64_t align_, end_;
};

// Puts the matrix products' scratch behind what `offsets` handed out.
template<class Workspace>
void close(Workspace& w, Offsets offsets, std::int64_t gemm_cap_bytes) {
  w.gemm = offsets.end();
  w.gemm_bytes = gemm_cap_bytes;
  w.bytes = checked_add(mul(w.gemm, dtype_bytes(Dtype::fp32)), gemm_cap_bytes, "workspace");
}

}  // namespace

Gpt2Dims gpt2_dims(const ModelSpec& spec, std::int64_t micro_batch) {
  mul(micro_batch, spec.sequence);
  return {spec.layers, spec.hidden, spec.heads,    spec.sequence,
          spec.vocab,  micro_batch, spec.tied_head};
}

BlockSaved block_saved(const Gpt2Dims& d) {
  const std::int64_t rows = d.rows(), rh = mul(rows, d.hidden);
  Offsets o(line_elems);
  BlockSaved s;
  s.ln1_mean = o.take(rows);
  s.ln1_rstd = o.take(rows);
  s.norm1 = o.take(rh);
  s.qkv = o.take(mul(3, rh));
  s.attention = o.take(rh);
  s.logsumexp = o.take(mul(rows, d.heads));
  s.x_mid = o.take(rh);
  s.ln2_mean = o.take(rows);
  s.ln2_rstd = o.take(rows);
  s.norm2 = o.take(rh);
  s.fc = o.take(mul(4, rh));
  s.elems = o.end();
  return s;
}

HeadSaved head_saved(const Gpt2Dims& d) {
  const std::int64_t rows = d.rows();
  Offsets o(line_elems);
  HeadSaved s;
  s.ln_mean = o.take(rows);
  s.ln_rstd = o.take(rows);
  s.norm = o.take(mul(rows, d.hidden));
  s.dlogits = o.take(mul(rows, d.vocab));
  s.row_loss = o.take(rows);
  s.elems = o.end();
  return s;
}

AttentionTile attention_tile(const Gpt2Dims& d) {
  constexpr std::int64_t cached_elems = std::int64_t{1} << 18;  // 1 MiB of scores
  AttentionTile t;
  t.query_rows = std::min<std::int64_t>(d.sequence, 64);
  t.score_ld =
      checked_add(round_up(d.sequence, line_elems, "model.sequence"), line_elems, "model.sequence");
  const std::int64_t head_elems = mul(t.query_rows, t.score_ld);
  t.heads = std::clamp<std::int64_t>(cached_elems / head_elems, 1, d.heads);
  while (d.heads % t.heads != 0) --t.heads;
  t.score_elems = mul(t.heads, head_elems);
  return t;
}

BlockForwardWorkspace block_forward_workspace(const Gpt2Dims& d, std::int64_t gemm_cap_bytes) {
  const std::int64_t rh = mul(d.rows(), d.hidden);
  Offsets o(line_elems);
  BlockForwardWorkspace w;
  w.act = w.scores = o.take(std::max(mul(4, rh), attention_tile(d).score_elems));
  close(w, o, gemm_cap_bytes);
  return w;
}

BlockBackwardWorkspace block_backward_workspace(const Gpt2Dims& d, std::int64_t gemm_cap_bytes) {
  const std::int64_t rh = mul(d.rows(), d.hidden), scores = attention_tile(d).score_elems;
  Offsets o(line_elems);
  BlockBackwardWorkspace w;
  w.dwide = o.take(mul(4, rh));
  Offsets attention = o;
  w.act = o.take(mul(4, rh));
  w.dnarrow = attention.take(rh);
  w.scores = attention.take(scores);
  w.dscores = attention.take(scores);
  w.delta = attention.take(mul(d.rows(), d.heads));
  close(w, attention.end() > o.end() ? attention : o, gemm_cap_bytes);
  return w;
}

HeadForwardWorkspace head_forward_workspace(const Gpt2Dims&, std::int64_t gemm_cap_bytes) {
  HeadForwardWorkspace w;
  close(w, Offsets(line_elems), gemm_cap_bytes);
  return w;
}

HeadBackwardWorkspace head_backward_workspace(const Gpt2Dims& d, std::int64_t gemm_cap_bytes) {
  Offsets o(line_elems);
  HeadBackwardWorkspace w;
  w.dnorm = o.take(mul(d.rows(), d.hidden));
  close(w, o, gemm_cap_bytes);
  return w;
}

std::int64_t saved_elems(const Gpt2Dims& d, UnitKind kind) {
  switch (kind) {
    case UnitKind::block: return block_saved(d).elems;
    case UnitKind::head: return head_saved(d).elems;
    case UnitKind::embeddings:
    case UnitKind::list: return 0;
  }
  return 0;
}

std::int64_t workspace_bytes(const Gpt2Dims& d, UnitKind kind, Kernel kernel,
                             std::int64_t gemm_scratch_cap_bytes) {
  const std::int64_t cap = gemm_scratch_cap_bytes;
  const bool forward = kernel == Kernel::forward;
  switch (kind) {
    case UnitKind::block:
      return forward ? block_forward_workspace(d, cap).bytes
                     : block_backward_workspace(d, cap).bytes;
    case UnitKind::head:
      return forward ? head_forward_workspace(d, cap).bytes : head_backward_workspace(d, cap).bytes;
    case UnitKind::embeddings:
    case UnitKind::list: return 0;
  }
  return 0;
}

}  // namespace shardmark
