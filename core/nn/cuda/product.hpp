// SPDX-License-Identifier: Apache-2.0
// One matrix product as cuBLASLt describes it, with the algorithm that cuBLASLt chose for the
// shape, the workspace and the alignment of the operands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <core/nn/products/matmul_shape.hpp>

namespace shardmark::device {

/// The pointers of one product, in device memory. `bias` is read only if the shape has a bias.
struct ProductOperands {
  const void *a, *b;
  void* c;
  const void* bias;
};

/// Returns the largest power of two up to 256 that divides all addresses.
std::uint32_t alignment_of(const ProductOperands& p);

/// A prepared product. Move-only. Sums are fp32: neither products nor partial sums are added in a
/// shorter type, and fp32 operands are not rounded to TF32. Some algorithms round the product to a
/// C of 16 bits before they add it to what C has.
class Product {
 public:
  /// Throws PlanError if cuBLASLt has no algorithm for `shape` within `workspace_bytes`.
  Product(cublasLtHandle_t handle, const MatMulShape& shape, std::uint32_t alignment,
          std::size_t workspace_bytes);
  /// The products of one shape with up to `most` algorithms that cuBLASLt proposes, the one that it
  /// would choose first. Throws as the constructor.
  static std::vector<Product> candidates(cublasLtHandle_t handle, const MatMulShape& shape,
                                         std::uint32_t alignment, std::size_t workspace_bytes,
                                         int most);
  ~Product();
  Product(Product&& other) noexcept;
  Product& operator=(Product&&) = delete;

  std::size_t workspace_bytes() const { return workspace_bytes_; }
  /// Enqueues the product on `stream`. `workspace` is workspace_bytes() bytes of device memory.
  void run(cublasLtHandle_t handle, cudaStream_t stream, const ProductOperands& p,
           void* workspace) const;

 private:
  // The library's struct has no tag, and nvcc 13.0 aborts where a vector of such a struct is
  // destroyed, so it gets a name here.
  struct Proposal : cublasLtMatmulHeuristicResult_t {};

  explicit Product(const MatMulShape& shape);  // without an algorithm
  std::vector<Proposal> proposals(cublasLtHandle_t handle, const MatMulShape& shape,
                                  std::uint32_t alignment, std::size_t workspace_bytes,
                                  int most) const;
  void choose(const Proposal& proposal);

  cublasLtMatmulDesc_t desc_ = nullptr;
  cublasLtMatrixLayout_t first_ = nullptr, second_ = nullptr, result_ = nullptr;
  cublasLtMatmulAlgo_t algo_{};
  std::size_t workspace_bytes_ = 0;
  bool accumulate_ = false;
};

}  // namespace shardmark::device
