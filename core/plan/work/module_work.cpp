// SPDX-License-Identifier: Apache-2.0
// The work of the modules of decoders but for attention (attention_work.cpp).
#include <core/plan/work/module_work.hpp>

namespace shardmark {

void ModuleWork::head_forward() {
  in_head_ = true;
  for_each_piece([&](std::int64_t, std::int64_t columns) { product_forward(h_, columns); });
  if (!d_.head_part.cuts()) loss_of_logits();
}

void ModuleWork::loss_of_logits() {
  if (decoder_.ends.logits_factor != 1 || decoder_.ends.logits_softcap > 0)
    stream("shape_logits", rows_ * d_.gathered_vocab(), 1, 2);
  stream("cross_entropy", rows_ * d_.vocab, d_.vocab, 3);
  work_.streams.push_back({.kernel = "mean_loss",
                           .elems = static_cast<double>(rows_),
                           .bytes = 4 * static_cast<double>(rows_)});
  if (decoder_.moe.balance_loss == 0) return;
  const std::int64_t sums = balance_elems(d_, d_.layers);
  typed("add_balance_loss", Dtype::fp32, sums, sums, 4 * static_cast<double>(sums), 1);
}

void ModuleWork::head_backward() {
  in_head_ = true;
  for_each_piece([&](std::int64_t first, std::int64_t columns) {
    product_weight(h_, columns);
    product_input(h_, columns, d_.head_part.cuts() ? d_.dtype : Dtype::fp32, first > 0);
    if (bias_trained_) stream("bias_backward", rows_ * columns, columns, 1);
  });
}

void ModuleWork::norm_forward() {
  stream(centred() ? "layer_norm_forward" : "rms_norm_forward", rows_ * made(),
         norm_columns(d_, role_), 2);
}

// `adds`: the gradient of the input is added to what is there.
void ModuleWork::norm_backward(Dtype dy, bool adds) {
  const std::int64_t elems = rows_ * made(), columns = norm_columns(d_, role_);
  const auto size = static_cast<double>(elems);
  const auto own = static_cast<double>(dtype_bytes(d_.dtype)), of_dy = double(dtype_bytes(dy));
  if (options_.fuses() && !centred() && trained_ && NormTeams::take(columns)) {
    const std::int64_t sums = std::min(elems / columns, NormTeams::count) * columns;
    typed("rms_norm_gradients", dy, elems, columns, size * (2 * own + of_dy), 1);
    return typed("bias_backward", Dtype::fp32, sums, columns, static_cast<double>(sums) * 4, 1);
  }
  if (bias_trained_ && !trained_) typed("bias_backward", dy, elems, columns, size * of_dy, 1);
  if (trained_)
    typed(centred() ? "layer_norm_backward_params" : "rms_norm_backward_params", dy, elems, columns,
          size * (own + of_dy), 1);
  const char* rows = adds ? "layer_norm_backward_rows" : "layer_norm_input_gradient";
  const double arrays = centred() && adds ? 3 : 2;
  typed(centred() ? rows : "rms_norm_input_gradient", dy, elems, columns,
        size * (arrays * own + of_dy), 1);
}

void ModuleWork::activation(bool backward) {
  if (backward && !module_.input_gradient) return;
  const MlpSpec& mlp = decoder_.mlp;
  const double arrays = backward ? (mlp.gated ? 6 : 4) : mlp.gated ? 3 : 2;
  stream(activation_kernel(mlp.activation, backward), rows_ * d_.ffn, 1, arrays);
}

// The product at the end of attention or MLP, and the sum with the residual stream.
void ModuleWork::close_sublayer(std::int64_t in) {
  const bool alone = decoder_.norms_after() || divided() || d_.adapts(role_);
  const bool adds = options_.fuses() && !biased_ && decoder_.block.residual_factor == 1;
  product_forward(in, h_, !alone && adds);
  if (!alone && !adds) add_residual();
}

// A mixture of experts, and what a block does after its last module and before its first one.
void ModuleWork::mixture(bool backward) {
  const Role last = decoder_.moe.ends();
  const bool reads_output = role_ == Role::experts || role_ == last;
  if (backward && reads_output && !decoder_.norms_after()) scale_gradient();
  add_mixture_work(d_, role_, backward, trained_, accumulate_, work_);
  if (backward && role_ == decoder_.moe.begins()) without_norm();
  if (backward && role_ == Role::router && module_.folded)
    typed("convert", d_.dtype, rows_ * h_, 1,
          static_cast<double>(rows_ * h_ * (4 + dtype_bytes(d_.dtype))), 1);
  if (backward || role_ != last || module_.exchanged || decoder_.norms_after()) return;
  stream("residual", rows_ * h_, 1, 3);
  if (last == Role::shared_down) stream("residual", rows_ * h_, 1, 3);  // the other experts' sum
}

// What comes before and after a pass of experts that ranks divide.
void ModuleWork::exchange() {
  add_exchange_work(d_, event_.kernel, work_);
  const bool last = event_.kernel == Kernel::forward_end && decoder_.moe.shared_ffn == 0;
  if (last && !decoder_.norms_after()) stream("residual", rows_ * h_, 1, 3);
}

// The keys and values of all heads of latent attention are spread over the places of k and v.
void ModuleWork::projection_forward() {
  const Width w = product_width(d_, role_);
  product_forward(w.in, w.out);
  if (!d_.adapts(role_)) arrange_product(role_, false);
}

void ModuleWork::forward() {
  if (in_mixture(role_)) return mixture(false);
  if (projection_roles.contains(role_)) return projection_forward();
  switch (role_) {
    case Role::sinks: return typed("convert", d_.dtype, d_.heads, 1, 8 * double(d_.heads), 1);
    case Role::token_embedding: return stream("token_embedding_forward", rows_ * h_, h_, 2);
    case Role::position_embedding: return stream("position_embedding_forward", rows_ * h_, h_, 3);
    case Role::post_norm1:
    case Role::post_norm2: norm_forward(); return stream("residual", rows_ * h_, 1, 3);
    case Role::attn_proj:
      if (!exchanges()) attention_forward();
      if (decoder_.latent())
        stream("arrange_heads", rows_ * row_elems(d_, Value::attention), d_.head_dim(), 2);
      return close_sublayer(row_elems(d_, Value::attention));
    case Role::mlp_proj: activation(false); return close_sublayer(d_.ffn);
    case Role::head: return head_forward();
    case Role::container:
    case Role::list: return;
    default: return norm_forward();
  }
}

void ModuleWork::forward_end() {
  if (role_ == Role::head) return loss_of_logits();
  stream("convert", rows_ * h_, 1, 2);
  if (!decoder_.norms_after()) add_residual();
}

void ModuleWork::add_residual() {
  stream(biased_ ? "bias_residual" : "residual", rows_ * h_, biased_ ? h_ : 1, 3);
}

void ModuleWork::backward_end() {
  const bool copies =
      begins_input_gradient(decoder_, role_) || role_ == Role::head || role_ == Role::router;
  const auto of_elem = static_cast<double>(dtype_bytes(d_.dtype) + (copies ? 4 : 8));
  typed(copies ? "convert" : "accumulate", d_.dtype, rows_ * h_, 1,
        static_cast<double>(rows_ * h_) * of_elem, 1);
}

// Backward of a product of a norm's output, or of what another product has made.
void ModuleWork::projection_backward() {
  arrange_product(role_, true);
  const auto [out, in] = product_width(d_, role_);
  const Dtype type = divided() ? d_.dtype : gradient_type(d_, flow_of(decoder_, role_).reads);
  const bool first = begins_input_gradient(decoder_, role_) && !d_.adapts(role_);
  const bool adds = !first && !divided();
  if (module_.input_gradient) product_input(in, out, type, adds);
  product_weight(in, out);
  if (bias_trained_) stream("bias_backward", rows_ * out, out, 1);
  if (ends_input_gradient(role_)) without_norm();
}

// The gradient of a sublayer's output, if a factor came before the sum.
void ModuleWork::scale_gradient() {
  if (decoder_.block.residual_factor != 1) stream("scaled_copy", rows_ * h_, 1, 2);
}

void ModuleWork::without_norm() {
  if (!decoder_.norms_before() && module_.input_gradient)
    typed("add_to", gradient_type(d_, Value::norm1), rows_ * h_, 1, 0, 1);
}

void ModuleWork::backward() {
  if (in_mixture(role_)) return mixture(true);
  if (projection_roles.contains(role_)) return projection_backward();
  const auto output = [&](std::int64_t in) {
    if (!decoder_.norms_after()) scale_gradient();
    if (module_.input_gradient) product_input(in, h_, d_.dtype, d_.adapts(role_));
    product_weight(in, h_);
    if (bias_trained_) stream("bias_backward", rows_ * h_, h_, 1);
  };
  switch (role_) {
    case Role::token_embedding:
      // It compares each token of the vocabulary with all tokens of the batch.
      return typed("token_embedding_backward", d_.dtype, d_.vocab * h_, rows_,
                   static_cast<double>((d_.vocab + 2 * rows_) * h_ * dtype_bytes(d_.dtype)), 1);
    case Role::position_embedding:
      return stream("position_embedding_backward", rows_ * h_, d_.micro_batch, 1);
    case Role::final_norm: return norm_backward(Dtype::fp32, false);
    case Role::norm1:
      norm_backward(gradient_type(d_, Value::norm1), true);
      if (decoder_.block.kind == BlockKind::parallel_two_norms)
        stream("residual", rows_ * h_, 1, 3);
      return;
    case Role::norm2:
      return norm_backward(gradient_type(d_, Value::norm2),
                           decoder_.block.kind == BlockKind::sequential);
    case Role::post_norm1:
    case Role::post_norm2: scale_gradient(); return norm_backward(d_.dtype, false);
    case Role::sinks:
      if (trained_)
        typed("bias_backward", Dtype::fp32, d_.heads, d_.heads, 8 * double(d_.heads), 1);
      return;
    case Role::head: return head_backward();
    case Role::mlp_proj: activation(true); return output(d_.ffn);
    case Role::attn_proj:
      output(row_elems(d_, Value::attention));
      if (decoder_.latent())
        stream("arrange_heads", rows_ * row_elems(d_, Value::attention), d_.head_dim(), 2);
      if (module_.input_gradient && !exchanges()) attention_backward();
      return;
    case Role::container:
    case Role::list: return;
    default: return norm_backward(d_.dtype, false);
  }
}

void add_module_work(const Program& program, const Event& event, const WorkOptions& options,
                     Work& work) {
  ModuleWork(program, event, options, work).add();
}

}  // namespace shardmark
