// SPDX-License-Identifier: Apache-2.0
// The work of the modules of transformers, in the order of core/nn/models/gpt2.cpp, llama.cpp and
// transformer.cpp.
#include <algorithm>

#include <core/plan/model/transformer_sizes.hpp>
#include <core/plan/work/work.hpp>

namespace shardmark {
namespace {

class ModuleWork {
 public:
  ModuleWork(const Program& program, const Event& event, const WorkOptions& options, Work& work)
      : event_(event),
        options_(options),
        work_(work),
        d_(transformer_dims(program.model.spec, program.batch.micro,
                            program.precision.computes_in())),
        role_(program.model.modules[event.module].role),
        rows_(d_.rows()),
        h_(d_.hidden) {
    if (event.kernel == Kernel::backward && event.params.count > 0) {
      const Operand& grad = program.operands[event.operands.first + event.params.count];
      accumulate_ = grad.reads && grad.writes;
    }
  }

  void add() { event_.kernel == Kernel::forward ? forward() : backward(); }

 private:
  // Products of a linear layer (core/nn/products/linear.hpp).
  void product_forward(std::int64_t in, std::int64_t out) {
    product({.m = rows_, .n = out, .k = in, .transpose_b = true, .c_type = d_.dtype});
  }
  void product_input(std::int64_t in, std::int64_t out, Dtype c_type, bool accumulate = false) {
    product({.m = rows_, .n = in, .k = out, .accumulate = accumulate, .c_type = c_type});
  }
  void product_weight(std::int64_t in, std::int64_t out) {
    product({.m = out,
             .n = in,
             .k = rows_,
             .transpose_a = true,
             .accumulate = accumulate_,
             .c_type = d_.dtype});
  }
  void product(Product p) {
    p.type = d_.dtype;
    p.part = part_;
    work_.products.push_back(p);
  }

  // A kernel over `elems` elements that reads `reads` and writes `writes` arrays of that size.
  void stream(std::string_view kernel, std::int64_t elems, std::int64_t width, double arrays) {
    const auto size = static_cast<double>(dtype_bytes(d_.dtype));
    typed(kernel, d_.dtype, elems, width, arrays * static_cast<double>(elems) * size, 1);
  }
  void typed(std::string_view kernel, Dtype source, std::int64_t elems, std::int64_t width,
             double bytes, std::int64_t launches) {
    work_.streams.push_back({.kernel = kernel,
                             .dtype = d_.dtype,
                             .source = source,
                             .elems = static_cast<double>(elems),
                             .width = static_cast<double>(width),
                             .bytes = bytes,
                             .launches = static_cast<double>(launches),
                             .in_attention = part_ != ProductPart::linear});
  }

  void forward();
  void backward();
  void attention_forward();
  void attention_backward();
  void head_forward();
  void head_backward();
  void final_norm_backward();
  void block_norm_backward();
  void llama_projection_backward(std::int64_t out, bool first);
  // Calls f(columns) for each piece of the vocabulary.
  template<class F>
  void for_each_piece(const F& f) const {
    const std::int64_t columns = head_piece_columns(d_.dtype, options_.on_host);
    for (std::int64_t v = 0; v < d_.vocab; v += columns) f(v, std::min(columns, d_.vocab - v));
  }
  // Calls f(rows, keys, heads, count) for each kind of tile.
  template<class F>
  void for_each_tile(const F& f) const {
    const AttentionTile size = attention_tile(d_);
    const std::int64_t count = d_.micro_batch * (d_.heads / size.heads);
    for (std::int64_t first = 0; first < d_.sequence; first += size.query_rows) {
      const std::int64_t rows = std::min(size.query_rows, d_.sequence - first);
      f(rows, first + rows, size.heads, count);
    }
  }
  // Whether the layers are those of gpt2 (LayerNorm, biases, GELU) or those of llama (RMSNorm,
  // rotary positions, SwiGLU).
  bool gpt2() const {
    switch (d_.family) {
      case Family::gpt2: return true;
      case Family::llama:
      case Family::list: break;
    }
    return false;
  }

  const Event& event_;
  const WorkOptions& options_;
  Work& work_;
  const TransformerDims d_;
  const Role role_;
  const std::int64_t rows_, h_;
  bool accumulate_ = false;
  ProductPart part_ = ProductPart::linear;
};

void ModuleWork::attention_forward() {
  const std::int64_t d = d_.head_dim();
  part_ = ProductPart::attention_forward;
  for_each_tile([&](std::int64_t rows, std::int64_t keys, std::int64_t heads, std::int64_t count) {
    product({.m = rows, .n = keys, .k = d, .batch = heads, .transpose_b = true, .count = count});
    const std::int64_t scores = heads * rows * keys;
    const auto bytes = static_cast<double>(scores * (4 + dtype_bytes(d_.dtype)));
    typed("attention_softmax", d_.dtype, scores, keys, bytes, count);
    product({.m = rows, .n = d, .k = keys, .batch = heads, .c_type = d_.dtype, .count = count});
  });
  part_ = ProductPart::linear;
}

void ModuleWork::attention_backward() {
  const std::int64_t d = d_.head_dim();
  part_ = ProductPart::attention_backward;
  const bool fp32 = d_.dtype == Dtype::fp32;
  stream("attention_delta", rows_ * h_, d, 2);
  const std::int64_t last = (d_.sequence - 1) / attention_tile(d_).query_rows;
  std::int64_t tile = 0;
  for_each_tile([&](std::int64_t rows, std::int64_t keys, std::int64_t heads, std::int64_t count) {
    const std::int64_t scores = heads * rows * keys;
    product(
        {.m = rows, .n = keys, .k = d, .batch = heads, .transpose_b = true, .count = 2 * count});
    typed("attention_softmax_backward", d_.dtype, scores, keys,
          static_cast<double>(scores * (8 + 2 * dtype_bytes(d_.dtype))), count);
    // The first tile that runs, the last one, overwrites the gradients of keys and values, for the
    // first query head of each group.
    const std::int64_t first = tile == last ? count / (d_.heads / d_.kv_heads) : 0;
    Product to_keys{.m = keys, .n = d, .k = rows, .batch = heads, .transpose_a = true};
    to_keys.count = 2 * first;
    if (first > 0) product(to_keys);
    to_keys.accumulate = true;
    to_keys.count = 2 * (count - first);
    if (count > first) product(to_keys);
    product({.m = rows, .n = d, .k = keys, .batch = heads, .c_type = d_.dtype, .count = count});
    ++tile;
  });
  if (!fp32) {
    const std::int64_t heads = attention_tile(d_).heads, columns = heads * d;
    typed("attention_store_sums", Dtype::fp32, d_.sequence * columns, columns,
          static_cast<double>(d_.sequence * columns * (4 + dtype_bytes(d_.dtype))),
          2 * d_.micro_batch * (d_.kv_heads / heads));
  }
  part_ = ProductPart::linear;
}

void ModuleWork::head_forward() {
  for_each_piece([&](std::int64_t, std::int64_t columns) { product_forward(h_, columns); });
  stream("cross_entropy", rows_ * d_.vocab, d_.vocab, 3);
  work_.streams.push_back({.kernel = "mean_loss",
                           .elems = static_cast<double>(rows_),
                           .bytes = 4 * static_cast<double>(rows_)});
}

void ModuleWork::head_backward() {
  for_each_piece([&](std::int64_t first, std::int64_t columns) {
    product_weight(h_, columns);
    product_input(h_, columns, Dtype::fp32, first > 0);
  });
}

// The gradient that the head leaves is a sum in fp32.
void ModuleWork::final_norm_backward() {
  const auto bytes = static_cast<double>(rows_ * h_ * (dtype_bytes(d_.dtype) + 4));
  typed(gpt2() ? "layer_norm_backward_params" : "rms_norm_backward_params", Dtype::fp32, rows_ * h_,
        h_, bytes, 1);
  typed(gpt2() ? "layer_norm_input_gradient" : "rms_norm_input_gradient", Dtype::fp32, rows_ * h_,
        h_, bytes + static_cast<double>(rows_ * h_ * dtype_bytes(d_.dtype)), 1);
}

void ModuleWork::block_norm_backward() {
  if (!gpt2()) {
    const auto bytes = static_cast<double>(rows_ * h_ * (2 * dtype_bytes(d_.dtype) + 4));
    typed("rms_norm_input_gradient", Dtype::fp32, rows_ * h_, h_, bytes, 1);
    typed("rms_norm_backward_params", Dtype::fp32, rows_ * h_, h_,
          static_cast<double>(rows_ * h_ * (dtype_bytes(d_.dtype) + 4)), 1);
    return;
  }
  stream("layer_norm_backward_rows", rows_ * h_, h_, 4);
  stream("layer_norm_backward_params", rows_ * h_, h_, 2);
}

void ModuleWork::forward() {
  const std::int64_t kv = d_.kv_dim(), ffn = d_.ffn;
  switch (role_) {
    case Role::token_embedding: return stream("token_embedding_forward", rows_ * h_, h_, 2);
    case Role::position_embedding: return stream("position_embedding_forward", rows_ * h_, h_, 3);
    case Role::norm1:
    case Role::norm2:
    case Role::final_norm:
      return stream(gpt2() ? "layer_norm_forward" : "rms_norm_forward", rows_ * h_, h_, 2);
    case Role::qkv: return product_forward(h_, 3 * h_);
    case Role::q: return product_forward(h_, h_);
    case Role::k:
    case Role::v: return product_forward(h_, kv);
    case Role::fc: return product_forward(h_, 4 * h_);
    case Role::gate:
    case Role::up: return product_forward(h_, ffn);
    case Role::attn_proj:
      if (!gpt2()) stream("rotary_forward", rows_ * (h_ + kv), d_.head_dim(), 2);
      attention_forward();
      product_forward(h_, h_);
      return stream(gpt2() ? "bias_residual" : "residual", rows_ * h_, gpt2() ? h_ : 1, 3);
    case Role::mlp_proj:
      stream(gpt2() ? "gelu_forward" : "swiglu_forward", rows_ * ffn, 1, gpt2() ? 2 : 3);
      product_forward(ffn, h_);
      return stream(gpt2() ? "bias_residual" : "residual", rows_ * h_, gpt2() ? h_ : 1, 3);
    case Role::head: return head_forward();
    case Role::container:
    case Role::list: return;
  }
}

// Backward of a projection of a norm's output, whose gradient is an fp32 sum over projections.
void ModuleWork::llama_projection_backward(std::int64_t out, bool first) {
  product_input(h_, out, Dtype::fp32, !first);
  product_weight(h_, out);
  if (event_.params.count > 1) stream("bias_backward", rows_ * out, out, 1);
}

void ModuleWork::backward() {
  const std::int64_t kv = d_.kv_dim(), ffn = d_.ffn;
  const auto linear = [&](std::int64_t in, std::int64_t out) {
    product_input(in, out, d_.dtype);
    product_weight(in, out);
    stream("bias_backward", rows_ * out, out, 1);
  };
  switch (role_) {
    case Role::token_embedding:
      // It compares each token of the vocabulary with all tokens of the batch.
      return typed("token_embedding_backward", d_.dtype, d_.vocab * h_, rows_,
                   static_cast<double>((d_.vocab + 2 * rows_) * h_ * dtype_bytes(d_.dtype)), 1);
    case Role::position_embedding:
      return stream("position_embedding_backward", rows_ * h_, d_.micro_batch, 1);
    case Role::final_norm: return final_norm_backward();
    case Role::norm1:
    case Role::norm2: return block_norm_backward();
    case Role::head: return head_backward();
    case Role::qkv: return linear(h_, 3 * h_);
    case Role::fc: return linear(h_, 4 * h_);
    case Role::mlp_proj:
      product_input(ffn, h_, d_.dtype);
      stream(gpt2() ? "gelu_backward" : "swiglu_backward", rows_ * ffn, 1, gpt2() ? 4 : 6);
      product_weight(ffn, h_);
      if (gpt2()) stream("bias_backward", rows_ * h_, h_, 1);
      return;
    case Role::attn_proj:
      product_input(h_, h_, d_.dtype);
      product_weight(h_, h_);
      if (gpt2()) stream("bias_backward", rows_ * h_, h_, 1);
      attention_backward();
      if (!gpt2()) stream("rotary_backward", rows_ * (h_ + kv), d_.head_dim(), 2);
      return;
    case Role::up: return llama_projection_backward(ffn, true);
    case Role::gate: return llama_projection_backward(ffn, false);
    case Role::v: return llama_projection_backward(kv, true);
    case Role::k: return llama_projection_backward(kv, false);
    case Role::q: return llama_projection_backward(h_, false);
    case Role::container:
    case Role::list: return;
  }
}

}  // namespace

void add_module_work(const Program& program, const Event& event, const WorkOptions& options,
                     Work& work) {
  ModuleWork(program, event, options, work).add();
}

}  // namespace shardmark
