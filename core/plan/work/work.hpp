// SPDX-License-Identifier: Apache-2.0
// The work of one event: which matrix products it computes, which elements its other kernels
// stream, and how often it launches a kernel. It follows core/nn kernel by kernel, so that a time
// that was measured for a shape or a kernel can be looked up; a test compares both.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <core/plan/plan.hpp>

namespace shardmark {

/// What a product belongs to. A device may compute all of attention in one fused kernel.
enum class ProductPart : std::uint8_t { linear, attention_forward, attention_backward };

/// `count` equal matrix products C[m][n] = op(A)[m][k] op(B)[k][n], each `batch` times.
struct Product {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  bool transpose_a = false, transpose_b = false;
  bool accumulate = false;
  Dtype type = Dtype::fp32;    // of A and B
  Dtype c_type = Dtype::fp32;  // of C
  std::int64_t count = 1;
  ProductPart part = ProductPart::linear;
  bool in_head = false;  // of the model: its product makes logits

  /// Of all `count` products.
  double flops() const {
    return 2.0 * double(m) * double(n) * double(k) * double(batch) * double(count);
  }
};

/// `launches` launches of one kernel that reads and writes elements without multiplying matrices.
struct Stream {
  std::string_view kernel;     // as the kernel's label names it, without the prefix
  Dtype dtype = Dtype::fp32;   // of what it writes
  Dtype source = Dtype::fp32;  // of what it reads, where that may differ
  double elems = 0;            // per launch
  double width = 1;            // length of a row, for kernels whose speed depends on it
  double bytes = 0;            // read and written per launch
  double launches = 1;
  bool in_attention = false;  // part of what a fused kernel of attention does
  bool updated = false;       // reads what an update has just written: some of it is in a cache
};

/// The attention of one event as a whole, whose products and kernels `Work` lists tile by tile.
struct AttentionWork {
  double heads = 0;     // of all sequences of the micro-batch; 0: the event has no attention
  double sequence = 0;  // queries and keys of one of them
  double head_dim = 0;
  double scores = 0;  // that the mask leaves, as its tiles round them up
  bool backward = false;
  Dtype dtype = Dtype::fp32;
};

/// All that one event computes. Copies and collectives have bytes and no kernels.
struct Work {
  std::vector<Product> products;
  std::vector<Stream> streams;
  AttentionWork attention;

  /// Of the matrix products.
  double flops() const;
  /// Read and written by kernels other than products.
  double streamed_bytes() const;
  double launches() const;
};

/// How the kernels of a build are cut.
struct WorkOptions {
  bool on_host = true;      // core/nn cuts the head's products smaller on a host
  bool own_kernels = true;  // false: other software, in which each operation is a kernel of its own
  /// Whether a kernel of a GPU may do the work of two on a host.
  bool fuses() const { return !on_host && own_kernels; }
};

/// The work of `event`, which belongs to `program`. Acquire, release and collectives have none; a
/// barrier neither.
Work work_of(const Program& program, const Event& event, const WorkOptions& options = {});

/// Appends the work of Muon's update of a whole matrix.
void add_muon_work(const Program& program, const Event& event, Work& work);

/// Appends the work of a module of a transformer; `accumulate` says that gradients are added.
void add_module_work(const Program& program, const Event& event, const WorkOptions& options,
                     Work& work);

}  // namespace shardmark
