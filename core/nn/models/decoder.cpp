// SPDX-License-Identifier: Apache-2.0
#include <core/nn/layers/activation.hpp>
#include <core/nn/layers/attention.hpp>
#include <core/nn/layers/elementwise.hpp>
#include <core/nn/layers/embedding.hpp>
#include <core/nn/layers/heads.hpp>
#include <core/nn/layers/norm.hpp>
#include <core/nn/layers/rotary.hpp>
#include <core/nn/models/decoder.hpp>
#include <core/nn/models/mixture.hpp>
#include <core/plan/deck/decoder_modules.hpp>
#include <core/plan/model/block_sizes.hpp>

namespace shardmark {
namespace {

// A norm whose figures are saved at these places.
Norm norm_of(const ModuleCall& c, std::int64_t rows, std::int64_t columns, NormSaved at) {
  return {c.ctx, c.decoder.norm, rows, columns, c.saved_fp32(at.mean), c.saved_fp32(at.rstd)};
}
void norm_forward(const Norm& norm, Tensors t, ConstStored x, Stored y) {
  norm.forward(t.weight, t.bias, x, y);
}
void norm_backward(const Norm& norm, Tensors t, Gradients g, ConstStored x, ConstStored dy,
                   Stored dx, bool add) {
  norm.param_gradients(x, dy, g.weight, g.bias, g.accumulate);
  norm.input_gradient(t.weight, x, dy, dx, add);
}

// One call of a module in a block.
class BlockCall : public ModuleCall {
 public:
  explicit BlockCall(const ModuleCall& call)
      : ModuleCall(call),
        attention_(attention_dims(dims)),
        s_(block_saved(dims)),
        q_(dims.q_dim()),
        kv_(dims.kv_dim()) {}

  void forward(Role role, Tensors t) const {
    switch (role) {
      case Role::norm1: return norm_forward(norm(s_.norm1), t, x_in(), saved(s_.norm1_out));
      case Role::norm2: return norm_forward(norm(s_.norm2), t, norm2_input(), saved(s_.norm2_out));
      case Role::qkv: return qkv_forward(t);
      case Role::q: return project(t, attention_input(), q_, s_.q_raw);
      case Role::k: return project(t, attention_input(), kv_, s_.k_raw);
      case Role::v: return project(t, attention_input(), kv_, s_.v);
      case Role::q_norm: return norm_forward(q_norm(), t, saved(s_.q_raw), saved(s_.q));
      case Role::k_norm: return norm_forward(k_norm(), t, saved(s_.k_raw), saved(s_.k));
      case Role::attn_proj: return attention_forward(t);
      case Role::post_norm1:
        norm_forward(norm(s_.post_norm1), t, saved(s_.attn_out), saved(s_.x_mid));
        return residual(ctx, rows * h, x_in(), saved(s_.x_mid), factor());
      case Role::fc:
      case Role::gate: return project(t, mlp_input(), fc_width(role), s_.gate);
      case Role::up: return project(t, mlp_input(), dims.ffn, s_.up);
      case Role::mlp_proj: return mlp_forward(t);
      case Role::post_norm2:
        norm_forward(norm(s_.post_norm2), t, saved(s_.mlp_out), x_out());
        return residual(ctx, rows * h, saved(s_.x_mid), x_out(), factor());
      default: return mixture_forward(role, t);
    }
  }

  void backward(Role role, Tensors t, Gradients g) const {
    const BlockBackwardWorkspace w = block_backward_workspace(dims, 0);
    const Scratch scratch(*this, "block", w.gemm);
    const Stored dnorm1 = norm_gradient(scratch, w.dnorm1);
    const Stored dnorm2 = norm_gradient(scratch, w.dnorm2);
    switch (role) {
      case Role::post_norm2:
        return norm_backward(norm(s_.post_norm2), t, g, saved(s_.mlp_out),
                             sublayer_gradient(scratch, w), scratch[w.dsub], false);
      case Role::mlp_proj: return mlp_backward(t, g, scratch, w);
      case Role::up:
        return product_backward(t, g, scratch, w.dup, dims.ffn, mlp_input(), dnorm2, true);
      case Role::gate:
      case Role::fc:
        product_backward(t, g, scratch, w.dgate, fc_width(role), mlp_input(), dnorm2,
                         role == Role::fc);
        return without_norm(dnorm2);
      case Role::norm2: return norm2_backward(t, g, scratch, w, dnorm2);
      case Role::post_norm1:
        return norm_backward(norm(s_.post_norm1), t, g, saved(s_.attn_out),
                             sublayer_gradient(scratch, w), scratch[w.dsub], false);
      case Role::attn_proj: return attention_backward(t, g, scratch, w);
      case Role::qkv: return qkv_backward(t, g, scratch, w, dnorm1);
      case Role::v:
        return product_backward(t, g, scratch, w.dv, kv_, attention_input(), dnorm1, !shared());
      case Role::k_norm:
        return norm_backward(k_norm(), t, g, saved(s_.k_raw), scratch[w.dk], scratch[w.dk], false);
      case Role::k:
        return product_backward(t, g, scratch, w.dk, kv_, attention_input(), dnorm1, false);
      case Role::q_norm:
        return norm_backward(q_norm(), t, g, saved(s_.q_raw), scratch[w.dq], scratch[w.dq], false);
      case Role::q:
        product_backward(t, g, scratch, w.dq, q_, attention_input(), dnorm1, false);
        return without_norm(dnorm1);
      case Role::norm1:
        norm_backward(norm(s_.norm1), t, g, x_in(), dnorm1, dx(), true);
        if (two_norms()) residual(ctx, rows * h, scratch[w.dside], dx());
        return;
      default: return mixture_backward(role, t, g, scratch, w, dnorm2);
    }
  }

  // What ranks have added up in `partial` goes where the undivided module's output would have gone.
  void forward_end(Role role) const {
    const bool attention = role == Role::attn_proj;
    const Stored sum = attention ? saved(s_.x_mid) : x_out();
    convert(ctx, rows * h, sum, partial());
    residual(ctx, rows * h, attention ? x_in() : saved(s_.x_mid), sum, factor());
  }
  void backward_end(Role role) const {
    const BlockBackwardWorkspace w = block_backward_workspace(dims, 0);
    const Scratch scratch(*this, "block", w.gemm);
    const bool mlp = role == Role::gate || role == Role::up;
    const Stored sum = norm_gradient(scratch, mlp ? w.dnorm2 : w.dnorm1);
    if (role == Role::v || role == Role::up)  // the first product of each norm's output
      convert(ctx, rows * h, sum, partial());
    else
      accumulate(ctx, rows * h, sum, partial());
  }

  // Attention itself, and its backward. Rotations are the same before q and k are exchanged.
  void attend() const {
    const Scratch scratch = forward_scratch();
    if (rotates())
      rotary_forward(ctx, attention_, parts(saved(s_.q), saved(s_.k), saved(s_.v)),
                     rotation_of(attention_, b.layer));
    shardmark::attention_forward(ctx, attention_, saved_parts(), saved(s_.context),
                                 saved_fp32(s_.logsumexp), scratch.base(),
                                 block_forward_workspace(dims, 0).attention, scratch.gemm());
  }
  void attend_backward() const {
    const BlockBackwardWorkspace w = block_backward_workspace(dims, 0);
    const Scratch scratch(*this, "block", w.gemm);
    const QueryKeyValue<Stored> gradient = parts(scratch[w.dq], scratch[w.dk], scratch[w.dv]);
    shardmark::attention_backward(ctx, attention_, saved_parts(), saved(s_.context),
                                  saved_fp32(s_.logsumexp), scratch[w.dattention], gradient,
                                  scratch.base(), w.attention, scratch.gemm());
    if (rotates()) rotary_backward(ctx, attention_, gradient, rotation_of(attention_, b.layer));
  }

 private:
  Norm norm(NormSaved at) const { return norm_of(*this, rows, h, at); }
  Norm head_norm(NormSaved at, std::int64_t heads, std::int64_t channels) const {
    const bool each = decoder.norm.qk == QkNorm::head;
    return norm_of(*this, each ? rows * heads : rows, each ? dims.head_dim() : channels, at);
  }
  Norm q_norm() const { return head_norm(s_.q_norm, dims.heads, q_); }
  Norm k_norm() const { return head_norm(s_.k_norm, dims.kv_heads, kv_); }
  // Whether attention is between two exchanges of ranks that divide samples, in calls of its own.
  bool exchanges() const { return dims.sequence_part.cuts(); }
  bool two_norms() const { return decoder.block.kind == BlockKind::parallel_two_norms; }
  // Whether MLP and attention read the output of one norm.
  bool shared() const { return decoder.block.kind == BlockKind::parallel; }
  float factor() const { return static_cast<float>(decoder.block.residual_factor); }
  std::int64_t fc_width(Role role) const { return role == Role::fc ? gate_stride(dims) : dims.ffn; }

  ConstStored attention_input() const {
    return decoder.norms_before() ? saved(s_.norm1_out) : x_in();
  }
  ConstStored norm2_input() const { return decoder.parallel() ? x_in() : saved(s_.x_mid); }
  ConstStored mlp_input() const {
    return decoder.norms_before() ? saved(s_.norm2_out) : saved(s_.x_mid);
  }
  template<class S>
  QueryKeyValue<S> parts(S q, S k, S v) const {
    return {q, k, v, q_stride(attention_), kv_stride(attention_)};
  }
  QueryKeyValue<ConstStored> saved_parts() const {
    return parts<ConstStored>(saved(s_.q), saved(s_.k), saved(s_.v));
  }
  bool rotates() const {
    return decoder.positions.kind == PositionKind::rotary &&
           in_pattern(decoder.positions.rotates, b.layer);
  }

  Scratch forward_scratch() const {
    return {*this, "block", block_forward_workspace(dims, 0).gemm};
  }
  Linear linear(const Scratch& scratch) const { return scratch.linear(decoder.in_out); }
  // saved[y] = x W^T (+ bias), with `out` columns.
  void project(Tensors t, ConstStored x, std::int64_t out, std::int64_t y) const {
    const Scratch scratch = forward_scratch();
    linear(scratch).forward(h, out, x, t.weight, t.bias, saved(y));
  }

  void qkv_forward(Tensors t) const {
    const std::int64_t out = q_stride(dims);
    if (decoder.attention.qkv != QkvLayout::grouped)
      return project(t, attention_input(), out, s_.q);
    const Scratch scratch = forward_scratch();
    const Stored grouped = scratch[block_forward_workspace(dims, 0).grouped];
    linear(scratch).forward(h, out, attention_input(), t.weight, t.bias, grouped);
    arrange_heads(ctx, dims, grouped, saved(s_.q), true);
  }

  // The output of a sublayer, as a sum with `x`, or on its own if a norm follows.
  void close(const Scratch& scratch, std::int64_t in, ConstStored act, Tensors t, ConstStored x,
             Stored sum, std::int64_t alone) const {
    if (decoder.norms_after())
      return linear(scratch).forward(in, h, act, t.weight, t.bias, saved(alone));
    if (divided()) return linear(scratch).forward(in, h, act, t.weight, nullptr, partial());
    linear(scratch).forward(in, h, act, t.weight, nullptr, sum);
    if (t.bias.data != nullptr)
      bias_residual(ctx, rows, h, x, t.bias, sum, factor());
    else
      residual(ctx, rows * h, x, sum, factor());
  }

  void attention_forward(Tensors t) const {
    const Scratch scratch = forward_scratch();
    if (!exchanges()) attend();
    close(scratch, q_, saved(s_.attention), t, x_in(), saved(s_.x_mid), s_.attn_out);
  }

  // The activation of a MLP with its gate, if it has one.
  GatedRows gated_rows() const { return {rows, dims.ffn, gate_stride(dims)}; }

  void mlp_forward(Tensors t) const {
    const Scratch scratch = forward_scratch();
    const Stored act = scratch[block_forward_workspace(dims, 0).act];
    const Activation kind = decoder.mlp.activation;
    if (decoder.mlp.gated)
      gated_forward(ctx, kind, gated_rows(), saved(s_.gate), saved(s_.up), act);
    else
      activation_forward(ctx, kind, rows * dims.ffn, saved(s_.gate), act);
    close(scratch, dims.ffn, act, t, saved(s_.x_mid), x_out(), s_.mlp_out);
  }

  Stored norm_gradient(const Scratch& scratch, std::int64_t offset) const {
    return {dnorm_type(dims), scratch[offset].data};
  }
  // Sums of gradients that no norm takes go to the residual stream.
  void without_norm(ConstStored sum) const {
    if (!decoder.norms_before()) add_to(ctx, rows * h, sum, dx());
  }
  // The gradient of what is added to the residual stream: dx, or its product with the factor.
  Stored sublayer_gradient(const Scratch& scratch, const BlockBackwardWorkspace& w) const {
    if (decoder.block.residual_factor == 1) return dx();
    scaled_copy(ctx, rows * h, dx(), factor(), scratch[w.dsub]);
    return scratch[w.dsub];
  }
  // The gradient of a sublayer's output: the norm after it has left it in the workspace.
  Stored output_gradient(const Scratch& scratch, const BlockBackwardWorkspace& w) const {
    return decoder.norms_after() ? scratch[w.dsub] : sublayer_gradient(scratch, w);
  }

  void mlp_backward(Tensors t, Gradients g, const Scratch& scratch,
                    const BlockBackwardWorkspace& w) const {
    const Linear product = linear(scratch);
    const Stored dy = output_gradient(scratch, w), act = scratch[w.act];
    const Activation kind = decoder.mlp.activation;
    const std::int64_t ffn = dims.ffn;
    if (decoder.mlp.joined) {
      // The gradient of the activation's output takes the place of the output, which is needed
      // again only after it.
      product.backward_input(ffn, h, dy, t.weight, act);
      gated_backward(ctx, kind, gated_rows(), saved(s_.gate), saved(s_.up), act, act,
                     scratch[w.dgate], scratch[w.dup]);
    } else {
      product.backward_input(ffn, h, dy, t.weight, scratch[w.dgate]);
      if (decoder.mlp.gated)
        gated_backward(ctx, kind, gated_rows(), saved(s_.gate), saved(s_.up), scratch[w.dgate], act,
                       scratch[w.dgate], scratch[w.dup]);
      else
        activation_backward(ctx, kind, rows * ffn, saved(s_.gate), act, scratch[w.dgate]);
    }
    product.backward_weight(ffn, h, dy, act, g.weight, g.accumulate);
    if (t.bias.data != nullptr) bias_backward(ctx, rows, h, dy, g.bias, g.accumulate);
  }

  // Backward of a product of x, from workspace[dy], which has `out` columns: computes dnorm, the
  // gradient of x. Products that share x add to dnorm; the one that runs first overwrites it.
  void product_backward(Tensors t, Gradients g, const Scratch& scratch, std::int64_t dy,
                        std::int64_t out, ConstStored x, Stored dnorm, bool first) const {
    const Linear product = linear(scratch);
    if (divided())
      product.backward_input(h, out, scratch[dy], t.weight, partial());
    else
      product.backward_input(h, out, scratch[dy], t.weight, dnorm, !first);
    product.backward_weight(h, out, scratch[dy], x, g.weight, g.accumulate);
    if (t.bias.data != nullptr) bias_backward(ctx, rows, out, scratch[dy], g.bias, g.accumulate);
  }

  void qkv_backward(Tensors t, Gradients g, const Scratch& scratch, const BlockBackwardWorkspace& w,
                    Stored dnorm) const {
    const bool grouped = decoder.attention.qkv == QkvLayout::grouped;
    if (grouped) arrange_heads(ctx, dims, scratch[w.dq], scratch[w.grouped], false);
    product_backward(t, g, scratch, grouped ? w.grouped : w.dq, q_stride(dims), attention_input(),
                     dnorm, !shared());
    without_norm(dnorm);
  }

  // x_mid = x_in + out(attention(q, k, v)): computes dq, dk and dv.
  void attention_backward(Tensors t, Gradients g, const Scratch& scratch,
                          const BlockBackwardWorkspace& w) const {
    const Linear product = linear(scratch);
    const Stored dattention = scratch[w.dattention], dy = output_gradient(scratch, w);
    product.backward_input(q_, h, dy, t.weight, dattention);
    product.backward_weight(q_, h, dy, saved(s_.attention), g.weight, g.accumulate);
    if (t.bias.data != nullptr) bias_backward(ctx, rows, h, dy, g.bias, g.accumulate);
    if (!exchanges()) attend_backward();
  }

  Mixture mixture() const { return {*this, s_.mixture, mlp_input()}; }

  void mixture_forward(Role role, Tensors t) const {
    const Scratch scratch = forward_scratch();
    const Stored out = decoder.norms_after() ? saved(s_.mlp_out) : x_out();
    mixture().forward(role, t, scratch, block_forward_workspace(dims, 0).mixture, out);
    const Role last = decoder.moe.shared_ffn > 0 ? Role::shared_router : Role::experts;
    if (role == last && !decoder.norms_after())
      residual(ctx, rows * h, saved(s_.x_mid), x_out(), factor());
  }

  void mixture_backward(Role role, Tensors t, Gradients g, const Scratch& scratch,
                        const BlockBackwardWorkspace& w, Stored dnorm) const {
    const bool reads_output = role == Role::experts || role == Role::shared_router;
    const ConstStored dy = reads_output ? output_gradient(scratch, w) : dnorm;
    mixture().backward(role, t, g, scratch, w.mixture, dy, dnorm);
    const Role first = decoder.moe.shared_ffn > 0 ? Role::shared_gate : Role::router;
    if (role == first) without_norm(dnorm);
  }

  // In a parallel block, attention still needs the gradient of the block's output.
  void norm2_backward(Tensors t, Gradients g, const Scratch& scratch,
                      const BlockBackwardWorkspace& w, ConstStored dnorm) const {
    const bool aside = two_norms();
    norm_backward(norm(s_.norm2), t, g, norm2_input(), dnorm, aside ? scratch[w.dside] : dx(),
                  !aside);
  }

  const TransformerDims attention_;
  const BlockSaved s_;
  const std::int64_t q_, kv_;
};

// The norms that do not belong to a block.
Norm final_norm(const ModuleCall& c) {
  const HeadSaved s = head_saved(c.dims);
  return norm_of(c, c.rows, c.h, {s.norm_mean, s.norm_rstd});
}
Norm embedding_norm(const ModuleCall& c) {
  const EmbeddingSaved s = embedding_saved(c.dims);
  return norm_of(c, c.rows, c.h, {s.norm_mean, s.norm_rstd});
}

}  // namespace

void decoder_forward(const ModuleCall& c, Role role, Tensors t) {
  switch (role) {
    case Role::position_embedding:
      return position_embedding_forward(c.ctx, c.dims, t.weight, c.x_out());
    case Role::embedding_norm:
      return norm_forward(embedding_norm(c), t, c.saved(embedding_saved(c.dims).embedding),
                          c.x_out());
    case Role::final_norm:
      return norm_forward(final_norm(c), t, c.x_in(), c.saved(head_saved(c.dims).norm));
    default: return BlockCall(c).forward(role, t);
  }
}

void decoder_forward_end(const ModuleCall& c, Role role) {
  BlockCall(c).forward_end(role);
}
void decoder_backward_end(const ModuleCall& c, Role role) {
  BlockCall(c).backward_end(role);
}

void decoder_attention(const ModuleCall& c) {
  BlockCall(c).attend();
}
void decoder_attention_backward(const ModuleCall& c) {
  BlockCall(c).attend_backward();
}

void decoder_backward(const ModuleCall& c, Role role, Tensors t, Gradients g) {
  switch (role) {
    case Role::position_embedding:
      return position_embedding_backward(c.ctx, c.dims, c.dx(), g.weight, g.accumulate);
    case Role::embedding_norm:
      return norm_backward(embedding_norm(c), t, g, c.saved(embedding_saved(c.dims).embedding),
                           c.dx(), c.dx(), false);
    case Role::final_norm: {
      const HeadBackwardWorkspace w = head_backward_workspace(c.dims, 0);
      const Scratch scratch(c, "final_norm", w.gemm);
      return norm_backward(final_norm(c), t, g, c.x_in(), scratch.fp32(w.dnorm), c.dx(), false);
    }
    default: return BlockCall(c).backward(role, t, g);
  }
}

}  // namespace shardmark
