// SPDX-License-Identifier: Apache-2.0
#include <core/nn/layers/activation.hpp>
#include <core/nn/layers/elementwise.hpp>
#include <core/nn/models/block.hpp>
#include <core/nn/models/block_tensors.hpp>

namespace shardmark {
namespace {

class BlockForward : public BlockTensors {
 public:
  explicit BlockForward(const ModuleCall& call)
      : BlockTensors(call), w_(block_forward_workspace(dims)) {}

  void run(Role role) const {
    if (projection_roles.contains(role)) return project(role);
    if (block_norms.contains(role)) return normalize(role);
    switch (role) {
      case Role::sinks:
        return convert(ctx, dims.heads, {Dtype::fp32, saved_fp32(s_.sinks)}, t.weight);
      case Role::attn_proj:
        if (!exchanges()) attend();
        return close(role, saved(s_.attention));
      case Role::mlp_proj: activate(scratch()[w_.act]); return close(role, scratch()[w_.act]);
      case Role::lora_a: return multiply_by_a();
      case Role::lora_b: return complete();
      default:
        mixture().forward(role, scratch(), w_.mixture, sublayer_output(role));
        if (!(dims.expert_part.cuts() && role == Role::experts)) close_mixture(role);
    }
  }

  void attend() const { attention().forward(scratch(), w_); }

  // Experts that ranks divide make what is sent first, and take what comes home in the end.
  void begin(Role role) const {
    if (role != Role::experts) unknown_role(role);
    mixture().experts().forward_begin();
  }
  // What ranks have added up in `partial` goes where the undivided module's output would have gone.
  void end(Role role) const {
    const Stored sum = sublayer_output(role);
    if (role == Role::experts) {
      mixture().end_experts(sum);
      return close_mixture(role);
    }
    convert(ctx, rows * h, sum, partial());
    if (!decoder.norms_after()) add_residual(role, {dims.dtype, b.bias}, sum);
  }

 private:
  Scratch scratch() const { return {*this, "block", w_.gemm}; }

  void normalize(Role role) const {
    const NormCall n = norm_call(role);
    norm_forward(n.norm, n.x, n.y);
    if (role == Role::post_norm1 || role == Role::post_norm2)
      residual(ctx, rows * h, residual_of(role), n.y, factor());
  }

  void project(Role role) const {
    const Stored y = output_of(role);
    const Width width = product_width(dims, role);
    linear(scratch()).forward(width.in, width.out, input_of(role), t.weight, t.bias, y);
    if (!dims.adapts(role)) arrange(role, y);
  }
  void arrange(Role role, ConstStored y) const {
    if (role == Role::qkv && grouped()) arrange_heads(ctx, dims, y, saved(s_.q), true);
    if (role == Role::kv_b) attention().spread(y);
  }
  // Where a product's output goes, to which an adapter may add.
  Stored output_of(Role role) const {
    switch (role) {
      case Role::qkv: return grouped() ? scratch()[w_.grouped] : saved(s_.q);
      case Role::q_a: return saved(s_.latent.q_a);
      case Role::kv_a: return saved(s_.latent.kv_a);
      case Role::kv_b: return scratch()[w_.grouped];
      case Role::q_b:
      case Role::q: return saved(s_.q_raw);
      case Role::k: return saved(s_.k_raw);
      case Role::v: return saved(s_.v);
      case Role::up: return saved(s_.up);
      case Role::attn_proj:
      case Role::mlp_proj: return sublayer_output(role);
      default: return saved(s_.gate);
    }
  }

  // The output of attention, or else of the MLP or the mixture.
  Stored sublayer_output(Role last) const {
    if (last == Role::attn_proj) return saved(decoder.norms_after() ? s_.attn_out : s_.x_mid);
    return decoder.norms_after() ? saved(s_.mlp_out) : x_out();
  }
  // The output of a sublayer, as a sum with the residual stream, or on its own if a norm follows or
  // if factors complete it.
  void close(Role role, ConstStored act) const {
    const std::int64_t in = product_width(dims, role).in;
    const Stored sum = sublayer_output(role);
    const Linear product = linear(scratch());
    if (divided()) return product.forward(in, h, act, t.weight, nullptr, partial());
    if (decoder.norms_after() || dims.adapts(role))
      return product.forward(in, h, act, t.weight, t.bias, sum);
    if (t.bias.data == nullptr && factor() == 1 &&
        product.forward_added(in, h, act, t.weight, residual_of(role), sum))
      return;
    product.forward(in, h, act, t.weight, nullptr, sum);
    add_residual(role, t.bias, sum);
  }
  // What the sublayer that ends with this module is added to.
  ConstStored residual_of(Role role) const {
    return role == Role::attn_proj || role == Role::post_norm1 ? x_in() : saved(s_.x_mid);
  }
  void add_residual(Role role, ConstStored bias, Stored sum) const {
    if (bias.data != nullptr)
      bias_residual(ctx, rows, h, residual_of(role), bias, sum, factor());
    else
      residual(ctx, rows * h, residual_of(role), sum, factor());
  }
  // What a block does after the last module of its mixture.
  void close_mixture(Role role) const {
    if (role == decoder.moe.ends() && !decoder.norms_after())
      residual(ctx, rows * h, saved(s_.x_mid), x_out(), factor());
  }

  void multiply_by_a() const {
    const Role role = b.adapts;
    const ConstStored x = role == Role::mlp_proj ? scratch()[w_.act] : input_of(role);
    scratch().linear().forward(product_width(dims, role).in, rank(), x, t.weight, nullptr,
                               low_rank());
    scale(low_rank());
  }
  // The second factor adds to the product, and what waits for the sum follows.
  void complete() const {
    const Role role = b.adapts;
    const Stored y = output_of(role);
    scratch().linear().forward(rank(), product_width(dims, role).out, low_rank(), t.weight, nullptr,
                               y, true);
    arrange(role, y);
    if (!decoder.norms_after() && (role == Role::attn_proj || role == Role::mlp_proj))
      residual(ctx, rows * h, residual_of(role), y, factor());
  }

  const BlockForwardWorkspace w_;
};

class BlockBackward : public BlockTensors {
 public:
  explicit BlockBackward(const ModuleCall& call)
      : BlockTensors(call), w_(block_backward_workspace(dims)), scratch_(*this, "block", w_.gemm) {}

  void run(Role role) const {
    if (projection_roles.contains(role)) return product_backward(role);
    if (block_norms.contains(role)) return norm_gradients(role);
    switch (role) {
      case Role::mlp_proj: return mlp_backward();
      case Role::attn_proj: return attention_backward();
      case Role::sinks:
        return bias_backward(ctx, 1, dims.heads, scratch_.fp32(w_.dsinks), g.weight, g.accumulate);
      case Role::lora_a: return a_backward();
      case Role::lora_b: return b_backward();
      default: return mixture_backward(role);
    }
  }

  void attend() const { attention().backward(scratch_, w_); }

  void begin(Role role) const {
    if (role != Role::experts) unknown_role(role);
    mixture().experts().backward_begin(scratch_, w_.mixture, output_gradient());
  }
  void end(Role role) const {
    const bool of_mixture = role == Role::experts || role == Role::router;
    const Stored sum = of_mixture ? dnorm(w_.dnorm2) : input_gradient_of(role);
    if (role == Role::experts)
      mixture().experts().backward_end(scratch_, w_.mixture, sum, mixture().shares());
    else if (role == Role::router || begins_input_gradient(decoder, role))
      convert(ctx, rows * h, sum, partial());
    else
      accumulate(ctx, rows * h, sum, partial());
  }

 private:
  void norm_gradients(Role role) const {
    const NormCall n = norm_call(role);
    const auto backward = [&](ConstStored dy, Stored dx, bool add = false) {
      norm_backward(n.norm, n.x, dy, dx, add, scratch_.gemm());
    };
    const bool two_norms = decoder.block.kind == BlockKind::parallel_two_norms;
    switch (role) {
      case Role::norm1:
        backward(dnorm(w_.dnorm1), dx(), true);
        if (two_norms) residual(ctx, rows * h, scratch_[w_.dside], dx());
        return;
      case Role::norm2:  // in a parallel block, attention still needs the gradient of its output
        return backward(dnorm(w_.dnorm2), two_norms ? scratch_[w_.dside] : dx(), !two_norms);
      case Role::q_norm: return backward(scratch_[w_.dq], scratch_[w_.dq]);
      case Role::k_norm: return backward(scratch_[w_.dk], scratch_[w_.dk]);
      case Role::q_a_norm: return backward(scratch_[w_.latent.dq_a_out], scratch_[w_.latent.dq_a]);
      case Role::kv_a_norm:
        return backward(scratch_[w_.latent.dkv_a_out], scratch_[w_.latent.dkv_a]);
      default: return backward(sublayer_gradient(), scratch_[w_.dsub]);  // after a sublayer
    }
  }

  // Sums of gradients that no norm takes go to the residual stream.
  void without_norm(ConstStored sum) const {
    if (!decoder.norms_before()) add_to(ctx, rows * h, sum, dx());
  }
  void mlp_backward() const {
    const Linear product = linear(scratch_);
    const Stored dy = output_gradient(), act = scratch_[w_.act];
    const Activation kind = decoder.mlp.activation;
    const std::int64_t ffn = dims.ffn;
    if (!b.input_gradient) return weight_backward(ffn, h, dy, act);  // of a bias alone
    // If gate and up are joined, dact and act share their memory: gated_backward reads the gradient
    // before it writes the output there.
    const Stored dact = input_gradient_of(Role::mlp_proj);
    product.backward_input(ffn, h, dy, t.weight, dact, dims.adapts(Role::mlp_proj));
    if (decoder.mlp.gated)
      gated_backward(ctx, kind, gated_rows(), saved(s_.gate), saved(s_.up), dact, act,
                     scratch_[w_.dgate], scratch_[w_.dup]);
    else
      activation_backward(ctx, kind, rows * ffn, saved(s_.gate), act, dact);
    weight_backward(ffn, h, dy, act);
  }

  // Backward of a product of what other products read too.
  void product_backward(Role role) const {
    const ConstStored dy = output_gradient_of(role);
    const Stored dx = input_gradient_of(role);
    const auto [out, in] = product_width(dims, role);
    const bool first = begins_input_gradient(decoder, role) && !dims.adapts(role);
    if (divided())
      linear(scratch_).backward_input(in, out, dy, t.weight, partial());
    else if (b.input_gradient)
      linear(scratch_).backward_input(in, out, dy, t.weight, dx, !first);
    weight_backward(in, out, dy, input_of(role));
    if (ends_input_gradient(role) && b.input_gradient) without_norm(dx);
  }

  // Gradients of a product's weight and bias, if they are trained.
  void weight_backward(std::int64_t in, std::int64_t out, ConstStored dy, ConstStored x) const {
    linear(scratch_).backward_weight(in, out, dy, x, g.weight, g.accumulate);
    if (g.bias.data != nullptr) bias_backward(ctx, rows, out, dy, g.bias, g.accumulate);
  }

  // x_mid = x_in + out(attention(q, k, v)): computes dq, dk and dv.
  void attention_backward() const {
    const Role role = Role::attn_proj;
    const std::int64_t in = product_width(dims, role).in;
    const Stored dy = output_gradient();
    weight_backward(in, h, dy, saved(s_.attention));
    if (!b.input_gradient) return;
    linear(scratch_).backward_input(in, h, dy, t.weight, input_gradient_of(role),
                                    dims.adapts(role));
    if (!exchanges()) attend();
  }

  // Writes the gradient of A x for factor A.
  void b_backward() const {
    const std::int64_t out = product_width(dims, b.adapts).out;
    const ConstStored dy = output_gradient_of(b.adapts);
    const Stored dlow_rank = scratch_[w_.dlow_rank];
    scratch_.linear().backward_weight(rank(), out, dy, low_rank(), g.weight, g.accumulate);
    scratch_.linear().backward_input(rank(), out, dy, t.weight, dlow_rank);
    scale(dlow_rank);
  }
  // The first factor is the first of a product's modules to make the gradient of the input.
  void a_backward() const {
    const Role role = b.adapts;
    const std::int64_t in = product_width(dims, role).in;
    const Stored act = scratch_[w_.act], dlow_rank = scratch_[w_.dlow_rank];
    if (role == Role::mlp_proj) activate(act);
    scratch_.linear().backward_weight(in, rank(), dlow_rank,
                                      role == Role::mlp_proj ? act : input_of(role), g.weight,
                                      g.accumulate);
    if (b.input_gradient)
      scratch_.linear().backward_input(in, rank(), dlow_rank, t.weight, input_gradient_of(role),
                                       !begins_input_gradient(decoder, role));
  }

  void mixture_backward(Role role) const {
    const bool reads_output = role == Role::experts || role == decoder.moe.ends();
    const Stored dx = dnorm(w_.dnorm2);
    const ConstStored dy = reads_output ? output_gradient() : dx;
    mixture().backward(role, scratch_, w_.mixture, dy, dx);
    if (role == decoder.moe.begins()) without_norm(dx);
  }

  // The gradients of a product's output and of its input.
  ConstStored output_gradient_of(Role role) const {
    switch (role) {
      case Role::qkv:
        if (!grouped()) return scratch_[w_.dq];
        arrange_heads(ctx, dims, scratch_[w_.dq], scratch_[w_.grouped], false);
        return scratch_[w_.grouped];
      case Role::q_a: return scratch_[w_.latent.dq_a];
      case Role::kv_a: return scratch_[w_.latent.dkv_a];
      case Role::kv_b: attention().collect(scratch_, w_); return scratch_[w_.latent.dkv_b];
      case Role::q_b:
      case Role::q: return scratch_[w_.dq];
      case Role::k: return scratch_[w_.dk];
      case Role::v: return scratch_[w_.dv];
      case Role::up: return scratch_[w_.dup];
      case Role::attn_proj:
      case Role::mlp_proj: return output_gradient();
      default: return scratch_[w_.dgate];
    }
  }
  Stored input_gradient_of(Role role) const {
    switch (role) {
      // The gradient of values without the zeros that attention needs after them has the place of
      // one that is made later.
      case Role::attn_proj: return scratch_[decoder.latent() ? w_.latent.dkv_b : w_.dattention];
      case Role::q_b: return scratch_[w_.latent.dq_a_out];
      case Role::kv_b: return scratch_[w_.latent.dkv_a_out];
      case Role::mlp_proj: return scratch_[decoder.mlp.joined ? w_.act : w_.dgate];
      case Role::fc:
      case Role::gate:
      case Role::up: return dnorm(w_.dnorm2);
      default: return dnorm(w_.dnorm1);
    }
  }
  // The gradient of a norm's output.
  Stored dnorm(std::int64_t offset) const { return {dnorm_type(dims), scratch_[offset].data}; }
  // The gradient of what is added to the residual stream: dx, or its product with the factor.
  Stored sublayer_gradient() const {
    if (decoder.block.residual_factor == 1) return dx();
    scaled_copy(ctx, rows * h, dx(), factor(), scratch_[w_.dsub]);
    return scratch_[w_.dsub];
  }
  // The gradient of a sublayer's output: the norm after it has left it in the workspace.
  Stored output_gradient() const {
    return decoder.norms_after() ? scratch_[w_.dsub] : sublayer_gradient();
  }

  const BlockBackwardWorkspace w_;
  const Scratch scratch_;
};

}  // namespace

void run_block(const ModuleCall& c, Kernel kernel, Role role) {
  switch (kernel) {
    case Kernel::forward: return BlockForward(c).run(role);
    case Kernel::backward: return BlockBackward(c).run(role);
    case Kernel::attention: return BlockForward(c).attend();
    case Kernel::attention_backward: return BlockBackward(c).attend();
    case Kernel::forward_begin: return BlockForward(c).begin(role);
    case Kernel::backward_begin: return BlockBackward(c).begin(role);
    case Kernel::forward_end: return BlockForward(c).end(role);
    default: return BlockBackward(c).end(role);
  }
}

}  // namespace shardmark
