// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <core/nn/layers/activation.hpp>
#include <core/nn/layers/elementwise.hpp>
#include <core/nn/models/adapter.hpp>
#include <core/nn/models/attention_call.hpp>
#include <core/nn/models/block.hpp>
#include <core/nn/models/block_tensors.hpp>
#include <core/nn/models/mixture.hpp>

namespace shardmark {
namespace {

// One call of a module in a block.
class BlockCall : public BlockTensors {
 public:
  explicit BlockCall(const ModuleCall& call) : BlockTensors(call) {}

  void forward(Role role, Tensors t) const {
    if (projection_roles.contains(role)) return project(t, role);
    switch (role) {
      case Role::norm1: return norm_forward(norm(s_.norm1), t, x_in(), saved(s_.norm1_out));
      case Role::norm2: return norm_forward(norm(s_.norm2), t, norm2_input(), saved(s_.norm2_out));
      case Role::sinks:
        return convert(ctx, dims.heads, {Dtype::fp32, saved_fp32(s_.sinks)}, t.weight);
      case Role::q_norm: return norm_forward(q_norm(), t, saved(s_.q_raw), saved(s_.q));
      case Role::k_norm: return norm_forward(k_norm(), t, saved(s_.k_raw), saved(s_.k));
      case Role::q_a_norm:
        return norm_forward(latent().q_norm(), t, saved(s_.latent.q_a), saved(s_.latent.q_a_out));
      case Role::kv_a_norm:
        return norm_forward(latent().kv_norm(), t, saved(s_.latent.kv_a),
                            saved(s_.latent.kv_a_out));
      case Role::attn_proj: return attention_forward(t);
      case Role::post_norm1:
        norm_forward(norm(s_.post_norm1), t, saved(s_.attn_out), saved(s_.x_mid));
        return residual(ctx, rows * h, x_in(), saved(s_.x_mid), factor());
      case Role::mlp_proj: return mlp_forward(t);
      case Role::post_norm2:
        norm_forward(norm(s_.post_norm2), t, saved(s_.mlp_out), x_out());
        return residual(ctx, rows * h, saved(s_.x_mid), x_out(), factor());
      case Role::lora_a: return low_rank().forward_a(t, forward_scratch(), input_of(b.adapts));
      case Role::lora_b: return complete(t);
      default: return mixture_forward(role, t);
    }
  }

  void backward(Role role, Tensors t, Gradients g) const {
    const BlockBackwardWorkspace w = block_backward_workspace(dims, 0);
    const Scratch scratch(*this, "block", w.gemm);
    const Stored dnorm2 = norm_gradient(scratch, w.dnorm2);
    if (projection_roles.contains(role)) return product_backward(role, t, g, scratch, w);
    switch (role) {
      case Role::post_norm2:
        return norm_backward(norm(s_.post_norm2), t, g, saved(s_.mlp_out),
                             sublayer_gradient(scratch, w), scratch[w.dsub], false, scratch.gemm());
      case Role::mlp_proj: return mlp_backward(t, g, scratch, w);
      case Role::norm2:  // in a parallel block, attention still needs the gradient of its output
        return norm_backward(norm(s_.norm2), t, g, norm2_input(), dnorm2,
                             two_norms() ? scratch[w.dside] : dx(), !two_norms(), scratch.gemm());
      case Role::post_norm1:
        return norm_backward(norm(s_.post_norm1), t, g, saved(s_.attn_out),
                             sublayer_gradient(scratch, w), scratch[w.dsub], false, scratch.gemm());
      case Role::attn_proj: return attention_backward(t, g, scratch, w);
      case Role::sinks:
        return bias_backward(ctx, 1, dims.heads, scratch.fp32(w.dsinks), g.weight, g.accumulate);
      case Role::k_norm:
        return norm_backward(k_norm(), t, g, saved(s_.k_raw), scratch[w.dk], scratch[w.dk], false,
                             scratch.gemm());
      case Role::q_norm:
        return norm_backward(q_norm(), t, g, saved(s_.q_raw), scratch[w.dq], scratch[w.dq], false,
                             scratch.gemm());
      case Role::q_a_norm:
        return norm_backward(latent().q_norm(), t, g, saved(s_.latent.q_a),
                             scratch[w.latent.dq_a_out], scratch[w.latent.dq_a], false,
                             scratch.gemm());
      case Role::kv_a_norm:
        return norm_backward(latent().kv_norm(), t, g, saved(s_.latent.kv_a),
                             scratch[w.latent.dkv_a_out], scratch[w.latent.dkv_a], false,
                             scratch.gemm());
      case Role::norm1:
        norm_backward(norm(s_.norm1), t, g, x_in(), norm_gradient(scratch, w.dnorm1), dx(), true,
                      scratch.gemm());
        if (two_norms()) residual(ctx, rows * h, scratch[w.dside], dx());
        return;
      case Role::lora_a: return factor_backward(t, g, scratch, w);
      case Role::lora_b:
        return low_rank().backward_b(t, g, scratch, output_gradient_of(b.adapts, scratch, w),
                                     scratch[w.dlow_rank]);
      default: return mixture_backward(role, t, g, scratch, w, dnorm2);
    }
  }

  // Experts that ranks divide make what is sent first, and take what comes home in the end.
  void forward_begin(Role role) const {
    if (role != Role::experts) unknown_role(role);
    mixture().divided().forward_begin();
  }
  void backward_begin(Role role) const {
    if (role != Role::experts) unknown_role(role);
    const BlockBackwardWorkspace w = block_backward_workspace(dims, 0);
    const Scratch scratch(*this, "block", w.gemm);
    mixture().divided().backward_begin(scratch, w.mixture, output_gradient(scratch, w));
  }

  // What ranks have added up in `partial` goes where the undivided module's output would have gone.
  void forward_end(Role role) const {
    if (role == Role::experts) {
      mixture().end_experts(mixture_output());
      return close_mixture(role);
    }
    convert(ctx, rows * h, sublayer_output(role), partial());
    if (!decoder.norms_after()) add_residual(role, {dims.dtype, b.bias}, sublayer_output(role));
  }
  void backward_end(Role role) const {
    const BlockBackwardWorkspace w = block_backward_workspace(dims, 0);
    const Scratch scratch(*this, "block", w.gemm);
    if (role == Role::experts)
      return mixture().divided().backward_end(scratch, w.mixture, norm_gradient(scratch, w.dnorm2),
                                              mixture().shares());
    const bool router = role == Role::router;
    const Stored sum =
        router ? norm_gradient(scratch, w.dnorm2) : input_gradient_of(role, scratch, w);
    if (router || begins_input_gradient(decoder, role))
      convert(ctx, rows * h, sum, partial());
    else
      accumulate(ctx, rows * h, sum, partial());
  }

 private:
  // Whether attention is between two exchanges of ranks that divide samples, in calls of its own.
  bool exchanges() const { return dims.sequence_part.cuts(); }
  // The activation of a MLP with its gate, if it has one.
  GatedRows gated_rows() const { return {rows, dims.ffn, gate_stride(dims)}; }

  void project(Tensors t, Role role) const {
    const Scratch scratch = forward_scratch();
    const Stored y = output_of(role, scratch);
    const Width width = product_width(dims, role);
    linear(scratch).forward(width.in, width.out, input_of(role), t.weight, t.bias, y);
    if (!dims.adapts(role)) arrange(role, y);
  }
  void arrange(Role role, ConstStored y) const {
    if (role == Role::qkv && grouped()) arrange_heads(ctx, dims, y, saved(s_.q), true);
    if (role == Role::kv_b) latent().spread(y);
  }

  // The output of a sublayer, as a sum with the residual stream, or on its own if a norm follows or
  // if factors complete it.
  void close(Role role, const Scratch& scratch, ConstStored act, Tensors t) const {
    const std::int64_t in = product_width(dims, role).in;
    const Stored sum = sublayer_output(role);
    if (divided()) return linear(scratch).forward(in, h, act, t.weight, nullptr, partial());
    if (decoder.norms_after() || dims.adapts(role))
      return linear(scratch).forward(in, h, act, t.weight, t.bias, sum);
    if (t.bias.data == nullptr && factor() == 1 &&
        linear(scratch).forward_added(in, h, act, t.weight, residual_of(role), sum))
      return;
    linear(scratch).forward(in, h, act, t.weight, nullptr, sum);
    add_residual(role, t.bias, sum);
  }
  // What the sublayer that ends with this product is added to.
  ConstStored residual_of(Role role) const {
    return role == Role::attn_proj ? x_in() : saved(s_.x_mid);
  }
  void add_residual(Role role, ConstStored bias, Stored sum) const {
    if (bias.data != nullptr)
      bias_residual(ctx, rows, h, residual_of(role), bias, sum, factor());
    else
      residual(ctx, rows * h, residual_of(role), sum, factor());
  }

  void attention_forward(Tensors t) const {
    const Scratch scratch = forward_scratch();
    if (!exchanges()) AttentionCall(*this, s_).forward();
    close(Role::attn_proj, scratch, saved(s_.attention), t);
  }

  void mlp_forward(Tensors t) const {
    const Scratch scratch = forward_scratch();
    const Stored act = scratch[block_forward_workspace(dims, 0).act];
    activate(act);
    close(Role::mlp_proj, scratch, act, t);
  }
  void activate(Stored act) const {
    const Activation kind = decoder.mlp.activation;
    if (decoder.mlp.gated)
      gated_forward(ctx, kind, gated_rows(), saved(s_.gate), saved(s_.up), act);
    else
      activation_forward(ctx, kind, rows * dims.ffn, saved(s_.gate), act);
  }

  // Sums of gradients that no norm takes go to the residual stream.
  void without_norm(ConstStored sum) const {
    if (!decoder.norms_before()) add_to(ctx, rows * h, sum, dx());
  }
  void mlp_backward(Tensors t, Gradients g, const Scratch& scratch,
                    const BlockBackwardWorkspace& w) const {
    const Linear product = linear(scratch);
    const Stored dy = output_gradient(scratch, w), act = scratch[w.act];
    const Activation kind = decoder.mlp.activation;
    const std::int64_t ffn = dims.ffn;
    if (!b.input_gradient) return weight_backward(product, ffn, h, dy, act, g);  // of a bias alone
    if (decoder.mlp.joined) {
      // The gradient of the activation's output takes the place of the output, which is needed
      // again only after it.
      product.backward_input(ffn, h, dy, t.weight, act, dims.adapts(Role::mlp_proj));
      gated_backward(ctx, kind, gated_rows(), saved(s_.gate), saved(s_.up), act, act,
                     scratch[w.dgate], scratch[w.dup]);
    } else {
      product.backward_input(ffn, h, dy, t.weight, scratch[w.dgate], dims.adapts(Role::mlp_proj));
      if (decoder.mlp.gated)
        gated_backward(ctx, kind, gated_rows(), saved(s_.gate), saved(s_.up), scratch[w.dgate], act,
                       scratch[w.dgate], scratch[w.dup]);
      else
        activation_backward(ctx, kind, rows * ffn, saved(s_.gate), act, scratch[w.dgate]);
    }
    weight_backward(product, ffn, h, dy, act, g);
  }

  // Backward of a product of what other products read too.
  void product_backward(Role role, Tensors t, Gradients g, const Scratch& scratch,
                        const BlockBackwardWorkspace& w) const {
    const Linear product = linear(scratch);
    const ConstStored dy = output_gradient_of(role, scratch, w);
    const Stored dnorm = input_gradient_of(role, scratch, w);
    const auto [out, in] = product_width(dims, role);
    const bool first = begins_input_gradient(decoder, role) && !dims.adapts(role);
    if (divided())
      product.backward_input(in, out, dy, t.weight, partial());
    else if (b.input_gradient)
      product.backward_input(in, out, dy, t.weight, dnorm, !first);
    weight_backward(product, in, out, dy, input_of(role), g);
    if (ends_input_gradient(role) && b.input_gradient) without_norm(dnorm);
  }

  // Gradients of a product's weight and bias, if they are trained.
  void weight_backward(const Linear& product, std::int64_t in, std::int64_t out, ConstStored dy,
                       ConstStored x, Gradients g) const {
    product.backward_weight(in, out, dy, x, g.weight, g.accumulate);
    if (g.bias.data != nullptr) bias_backward(ctx, rows, out, dy, g.bias, g.accumulate);
  }

  // x_mid = x_in + out(attention(q, k, v)): computes dq, dk and dv.
  void attention_backward(Tensors t, Gradients g, const Scratch& scratch,
                          const BlockBackwardWorkspace& w) const {
    const Role role = Role::attn_proj;
    const std::int64_t in = product_width(dims, role).in;
    const Stored dy = output_gradient(scratch, w);
    weight_backward(linear(scratch), in, h, dy, saved(s_.attention), g);
    if (!b.input_gradient) return;
    linear(scratch).backward_input(in, h, dy, t.weight, input_gradient_of(role, scratch, w),
                                   dims.adapts(role));
    if (!exchanges()) AttentionCall(*this, s_).backward();
  }

  LowRank low_rank() const {
    return {*this, product_width(dims, b.adapts), saved(s_.low_rank[b.adapts])};
  }
  // The second factor adds to the product, and what waits for the sum follows.
  void complete(Tensors t) const {
    const Scratch scratch = forward_scratch();
    const Stored y = output_of(b.adapts, scratch);
    low_rank().forward_b(t, scratch, y);
    arrange(b.adapts, y);
    if (decoder.norms_after()) return;
    if (b.adapts == Role::attn_proj || b.adapts == Role::mlp_proj)
      residual(ctx, rows * h, residual_of(b.adapts), y, factor());
  }
  // The first factor is the first of a product's modules to make the gradient of the input.
  void factor_backward(Tensors t, Gradients g, const Scratch& scratch,
                       const BlockBackwardWorkspace& w) const {
    const Role role = b.adapts;
    const Stored act = scratch[w.act];
    if (role == Role::mlp_proj) activate(act);
    low_rank().backward_a(t, g, scratch, role == Role::mlp_proj ? act : input_of(role),
                          scratch[w.dlow_rank], input_gradient_of(role, scratch, w),
                          !begins_input_gradient(decoder, role));
  }

  Mixture mixture() const { return {*this, s_.mixture, mlp_input()}; }

  void mixture_forward(Role role, Tensors t) const {
    mixture().forward(role, t, forward_scratch(), block_forward_workspace(dims, 0).mixture,
                      mixture_output());
    if (!(dims.expert_part.cuts() && role == Role::experts)) close_mixture(role);
  }
  Stored mixture_output() const { return decoder.norms_after() ? saved(s_.mlp_out) : x_out(); }
  // What a block does after the last module of its mixture.
  void close_mixture(Role role) const {
    if (role == decoder.moe.ends() && !decoder.norms_after())
      residual(ctx, rows * h, saved(s_.x_mid), x_out(), factor());
  }

  void mixture_backward(Role role, Tensors t, Gradients g, const Scratch& scratch,
                        const BlockBackwardWorkspace& w, Stored dnorm) const {
    const bool reads_output = role == Role::experts || role == decoder.moe.ends();
    const ConstStored dy = reads_output ? output_gradient(scratch, w) : dnorm;
    mixture().backward(role, t, g, scratch, w.mixture, dy, dnorm);
    if (role == decoder.moe.begins()) without_norm(dnorm);
  }
};

}  // namespace

void block_forward(const ModuleCall& c, Role role, Tensors t) {
  BlockCall(c).forward(role, t);
}
void block_backward(const ModuleCall& c, Role role, Tensors t, Gradients g) {
  BlockCall(c).backward(role, t, g);
}
void block_part(const ModuleCall& c, Kernel kernel, Role role) {
  const BlockCall call(c);
  switch (kernel) {
    case Kernel::forward_begin: return call.forward_begin(role);
    case Kernel::backward_begin: return call.backward_begin(role);
    case Kernel::forward_end: return call.forward_end(role);
    default: return call.backward_end(role);
  }
}

}  // namespace shardmark
