// SPDX-License-Identifier: Apache-2.0
// The work of attention, tile by tile, and of what stands in place of it where keys are latent.
#include <core/plan/work/module_work.hpp>

namespace shardmark {

void ModuleWork::describe_attention(bool backward) {
  AttentionWork& a = work_.attention;
  a.heads = static_cast<double>(d_.micro_batch * attention_.heads);
  a.sequence = static_cast<double>(attention_.sequence);
  a.head_dim = static_cast<double>(d_.head_dim());
  a.backward = backward;
  a.dtype = d_.dtype;
  for_each_tile([&](std::int64_t rows, std::int64_t keys, std::int64_t heads, std::int64_t count) {
    a.scores += static_cast<double>(rows * keys * heads * count);
  });
}

void ModuleWork::rotate(const char* kernel) {
  const std::int64_t turned = decoder_.attention.latent.rotary_dim;
  if (rotates_ && decoder_.latent()) return stream(kernel, rows_ * d_.heads * turned, turned, 2);
  if (rotates_)
    stream(kernel, attention_.rows() * (attention_.q_dim() + attention_.kv_dim()), d_.head_dim(),
           2);
}

void ModuleWork::attention_forward() {
  if (attention_.heads == 0) return;
  rotate("rotary_forward");
  describe_attention(false);
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
  if (attention_.heads == 0) return;
  describe_attention(true);
  const std::int64_t d = d_.head_dim();
  part_ = ProductPart::attention_backward;
  const bool fp32 = d_.dtype == Dtype::fp32;
  stream("attention_delta", rows_ * q_, d, 2);
  const TransformerDims& a = attention_;
  const std::int64_t last = (a.sequence - 1) / attention_tile(a).query_rows;
  std::int64_t tile = 0;
  for_each_tile([&](std::int64_t rows, std::int64_t keys, std::int64_t heads, std::int64_t count) {
    const std::int64_t scores = heads * rows * keys;
    product(
        {.m = rows, .n = keys, .k = d, .batch = heads, .transpose_b = true, .count = 2 * count});
    typed("attention_softmax_backward", d_.dtype, scores, keys,
          static_cast<double>(scores * (8 + 2 * dtype_bytes(d_.dtype))), count);
    // The first tile that runs, the last one, overwrites the gradients of keys and values, for the
    // first query head of each group.
    const bool windowed = d_.rules.window > 0;  // then every tile adds to zeros
    const std::int64_t first = tile == last && !windowed ? count / (a.heads / a.kv_heads) : 0;
    Product to_keys{.m = keys, .n = d, .k = rows, .batch = heads, .transpose_a = true};
    to_keys.count = 2 * first;
    if (first > 0) product(to_keys);
    to_keys.accumulate = true;
    to_keys.count = 2 * (count - first);
    if (count > first) product(to_keys);
    product({.m = rows, .n = d, .k = keys, .batch = heads, .c_type = d_.dtype, .count = count});
    ++tile;
  });
  const std::int64_t heads = attention_tile(a).heads, columns = heads * d;
  if (d_.rules.window > 0)
    typed("attention_clear_sums", Dtype::fp32, a.sequence * columns, columns,
          static_cast<double>(a.sequence * columns * 4), 2 * a.micro_batch * (a.kv_heads / heads));
  if (!fp32) {
    typed("attention_store_sums", Dtype::fp32, a.sequence * columns, columns,
          static_cast<double>(a.sequence * columns * (4 + dtype_bytes(d_.dtype))),
          2 * a.micro_batch * (a.kv_heads / heads));
  }
  if (d_.rules.sinks)
    typed("attention_sinks_backward", Dtype::fp32, rows_ * a.heads, d_.sequence,
          8 * static_cast<double>(rows_ * a.heads), 1);
  part_ = ProductPart::linear;
  rotate("rotary_backward");
}

}  // namespace shardmark
