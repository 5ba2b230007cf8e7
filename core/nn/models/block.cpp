// SPDX-License-Identifier: Apache-2.0
#include <core/nn/layers/activation.hpp>
#include <core/nn/layers/elementwise.hpp>
#include <core/nn/models/block_tensors.hpp>

namespace shardmark {
namespace {

class BlockForward : public BlockTensors {
 public:
  explicit BlockForward(const ModuleCall& call)
      : BlockTensors(call, block_forward_workspace(call.dims)) {}

  void run(Role role) const {
    if (projection_roles.contains(role)) return project(role);
    if (block_norms.contains(role)) return normalize(role);
    switch (role) {
      case Role::sinks:
        return convert(ctx, dims.heads, {Dtype::fp32, saved_fp32(s.sinks)}, t.weight);
      case Role::attn_proj:
        if (!exchanges()) attend();
        return close(role);
      case Role::mlp_proj: activate(); return close(role);
      case Role::lora_a: return multiply_by_a();
      case Role::lora_b: return complete();
      default:
        mixture().forward(role, sublayer_output(role));
        if (!(dims.expert_part.cuts() && role == Role::experts)) close_mixture(role);
    }
  }

  void attend() const { attention().forward(); }

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
  void normalize(Role role) const {
    const Stored y = output_of(role);
    norm_forward(norm_of(role), input_of(role), y);
    if (role == Role::post_norm1 || role == Role::post_norm2)
      residual(ctx, rows * h, residual_of(role), y, factor());
  }

  void project(Role role) const {
    const Stored y = output_of(role);
    const auto [out, in] = product_width(dims, role);
    linear().forward(in, out, input_of(role), t.weight, t.bias, y);
    if (!dims.adapts(role)) arrange(role, y);
  }
  void arrange(Role role, ConstStored y) const {
    if (role == Role::qkv && grouped()) arrange_heads(ctx, dims, y, value(Value::q), true);
    if (role == Role::kv_b) attention().spread(y);
  }
  // Where a module's output goes, to which an adapter may add.
  Stored output_of(Role role) const {
    const bool waits = role == Role::kv_b || (role == Role::qkv && grouped());
    return waits ? scratch()[w.grouped] : value(flow(role).makes);
  }

  // The output of attention, or else of the MLP or the mixture.
  Stored sublayer_output(Role last) const {
    return value(last == Role::attn_proj ? Value::attn_out : Value::mlp_out);
  }
  // The output of a sublayer, as a sum with the residual stream, or on its own if a norm follows or
  // if factors complete it.
  void close(Role role) const {
    const ConstStored x = input_of(role);
    const std::int64_t in = product_width(dims, role).in;
    const Stored sum = sublayer_output(role);
    if (divided()) return linear().forward(in, h, x, t.weight, nullptr, partial());
    if (decoder.norms_after() || dims.adapts(role))
      return linear().forward(in, h, x, t.weight, t.bias, sum);
    if (t.bias.data == nullptr && factor() == 1 &&
        linear().forward_added(in, h, x, t.weight, residual_of(role), sum))
      return;
    linear().forward(in, h, x, t.weight, nullptr, sum);
    add_residual(role, t.bias, sum);
  }
  // What the sublayer that ends with this module is added to.
  ConstStored residual_of(Role role) const {
    return role == Role::attn_proj || role == Role::post_norm1 ? x_in() : value(Value::mid);
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
      residual(ctx, rows * h, value(Value::mid), x_out(), factor());
  }

  void multiply_by_a() const {
    const std::int64_t in = product_width(dims, b.adapts).in;
    scratch().linear().forward(in, rank(), input_of(b.adapts), t.weight, nullptr, low_rank());
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
};

class BlockBackward : public BlockTensors {
 public:
  explicit BlockBackward(const ModuleCall& call)
      : BlockTensors(call, block_backward_workspace(call.dims)) {}

  void run(Role role) const {
    if (is_adaptable(role)) return product_backward(role);
    if (block_norms.contains(role)) return norm_gradients(role);
    switch (role) {
      case Role::sinks:
        return bias_backward(ctx, 1, dims.heads, scratch().fp32(w.dsinks), g.weight, g.accumulate);
      case Role::lora_a: return a_backward();
      case Role::lora_b: return b_backward();
      default: return mixture_backward(role);
    }
  }

  void attend() const { attention().backward(); }

  void begin(Role role) const {
    if (role != Role::experts) unknown_role(role);
    mixture().experts().backward_begin(output_gradient());
  }
  void end(Role role) const {
    const Stored sum = input_gradient_of(role);
    if (role == Role::experts)
      mixture().experts().backward_end(sum, mixture().shares());
    else if (role == Role::router || begins_input_gradient(decoder, role))
      convert(ctx, rows * h, sum, partial());
    else
      accumulate(ctx, rows * h, sum, partial());
  }

 private:
  void norm_gradients(Role role) const {
    const auto backward = [&](ConstStored dy, Stored dx, bool add = false) {
      norm_backward(norm_of(role), input_of(role), dy, dx, add, scratch().gemm());
    };
    const ConstStored dy = gradient(flow(role).makes);
    const bool two_norms = decoder.block.kind == BlockKind::parallel_two_norms;
    switch (role) {
      case Role::norm1:
        backward(dy, dx(), true);
        if (two_norms) residual(ctx, rows * h, scratch()[w.dside], dx());
        return;
      case Role::norm2:  // in a parallel block, attention still needs the gradient of its output
        return backward(dy, two_norms ? scratch()[w.dside] : dx(), !two_norms);
      case Role::post_norm1:
      case Role::post_norm2: return backward(sublayer_gradient(), scratch()[w.dsub]);
      default: return backward(dy, input_gradient_of(role));
    }
  }

  // Sums of gradients that no norm takes go to the residual stream.
  void without_norm(ConstStored sum) const {
    if (!decoder.norms_before()) add_to(ctx, rows * h, sum, dx());
  }

  // The gradient of the input comes first, unless nothing before the product is trained. Of a
  // projection it may be a sum over several products.
  void product_backward(Role role) const {
    const ConstStored dy = output_gradient_of(role);
    const Stored to = input_gradient_of(role);
    const auto [out, in] = product_width(dims, role);
    const bool projects = projection_roles.contains(role);
    const bool first = begins_input_gradient(decoder, role) && !dims.adapts(role);
    if (divided() && projects)
      linear().backward_input(in, out, dy, t.weight, partial());
    else if (b.input_gradient)
      linear().backward_input(in, out, dy, t.weight, to, !first);
    if (role == Role::mlp_proj && b.input_gradient) activation_gradients(to);
    weight_backward(in, out, dy, input_of(role));
    if (!b.input_gradient) return;
    if (projects && ends_input_gradient(role)) without_norm(to);
    if (role == Role::attn_proj && !exchanges()) attend();
  }
  // If gate and up are joined, the gradient of the activation's output and that output share their
  // memory: gated_backward reads the gradient before it writes the output there.
  void activation_gradients(Stored dact) const {
    const Activation kind = decoder.mlp.activation;
    const Stored gate = value(Value::gate), act = value(Value::act);
    if (decoder.mlp.gated)
      gated_backward(ctx, kind, gated_rows(), gate, value(Value::up), dact, act,
                     gradient(Value::gate), gradient(Value::up));
    else
      activation_backward(ctx, kind, rows * dims.ffn, gate, act, dact);
  }

  // Gradients of a product's weight and bias, if they are trained.
  void weight_backward(std::int64_t in, std::int64_t out, ConstStored dy, ConstStored x) const {
    linear().backward_weight(in, out, dy, x, g.weight, g.accumulate);
    if (g.bias.data != nullptr) bias_backward(ctx, rows, out, dy, g.bias, g.accumulate);
  }

  // Writes the gradient of A x for factor A.
  void b_backward() const {
    const std::int64_t out = product_width(dims, b.adapts).out;
    const ConstStored dy = output_gradient_of(b.adapts);
    const Stored dlow_rank = scratch()[w.dlow_rank];
    scratch().linear().backward_weight(rank(), out, dy, low_rank(), g.weight, g.accumulate);
    scratch().linear().backward_input(rank(), out, dy, t.weight, dlow_rank);
    scale(dlow_rank);
  }
  // The first factor is the first of a product's modules to make the gradient of the input.
  void a_backward() const {
    const Role role = b.adapts;
    const std::int64_t in = product_width(dims, role).in;
    const Stored dlow_rank = scratch()[w.dlow_rank];
    if (role == Role::mlp_proj) activate();
    scratch().linear().backward_weight(in, rank(), dlow_rank, input_of(role), g.weight,
                                       g.accumulate);
    if (b.input_gradient)
      scratch().linear().backward_input(in, rank(), dlow_rank, t.weight, input_gradient_of(role),
                                        !begins_input_gradient(decoder, role));
  }

  void mixture_backward(Role role) const {
    const bool reads_output = role == Role::experts || role == decoder.moe.ends();
    const Stored dx = input_gradient_of(Role::router);
    const ConstStored dy = reads_output ? output_gradient() : dx;
    mixture().backward(role, dy, dx);
    if (role == decoder.moe.begins()) without_norm(dx);
  }

  // The gradients of a product's output and of its input.
  ConstStored output_gradient_of(Role role) const {
    if (role == Role::attn_proj || role == Role::mlp_proj) return output_gradient();
    if (role == Role::kv_b) attention().collect();
    if (role != Role::qkv || !grouped()) return gradient(flow(role).makes);
    arrange_heads(ctx, dims, gradient(Value::q), scratch()[w.grouped], false);
    return scratch()[w.grouped];
  }
  Stored input_gradient_of(Role role) const { return gradient(flow(role).reads); }
  // The gradient of what is added to the residual stream: dx, or its product with the factor.
  Stored sublayer_gradient() const {
    if (decoder.block.residual_factor == 1) return dx();
    const Stored scaled = scratch()[w.dsub];
    scaled_copy(ctx, rows * h, dx(), factor(), scaled);
    return scaled;
  }
  // The gradient of a sublayer's output: the norm after it has left it in the workspace.
  Stored output_gradient() const {
    return decoder.norms_after() ? scratch()[w.dsub] : sublayer_gradient();
  }
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
