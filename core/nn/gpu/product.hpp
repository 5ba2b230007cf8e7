// SPDX-License-Identifier: Apache-2.0
// One matrix product as the GPU's library describes it, with the algorithm that it chose for the
// shape, the workspace and the alignment of the operands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <core/nn/gpu/product_library.hpp>
#include <core/nn/products/matmul_shape.hpp>

namespace shardmark::device {

/// The pointers of one product, in device memory. `bias` is read only if the shape has a bias. A
/// product that accumulates adds `added`, or c if that is null.
struct ProductOperands {
  const void *a, *b;
  void* c;
  const void *bias = nullptr, *added = nullptr;
};

/// Returns the largest power of two up to 256 that divides all addresses.
std::uint32_t alignment_of(const ProductOperands& p);

/// A prepared product. Move-only. Sums are fp32: neither products nor partial sums are added in a
/// shorter type, and fp32 operands are not rounded to TF32. Some algorithms round the product to a
/// C of 16 bits before they add it to what C has.
class Product {
 public:
  /// Throws PlanError if the library has no algorithm for `shape` within `workspace_bytes`.
  Product(blas::Handle handle, const MatMulShape& shape, std::uint32_t alignment,
          std::size_t workspace_bytes);
  /// The products of one shape with up to `most` algorithms that the library proposes, the one that
  /// it would choose first. Throws as the constructor.
  static std::vector<Product> candidates(blas::Handle handle, const MatMulShape& shape,
                                         std::uint32_t alignment, std::size_t workspace_bytes,
                                         int most);
  ~Product();
  Product(Product&& other) noexcept;
  Product& operator=(Product&&) = delete;

  std::size_t workspace_bytes() const { return workspace_bytes_; }
  /// Enqueues the product on `stream`. `workspace` is workspace_bytes() bytes of device memory.
  void run(blas::Handle handle, device::Stream stream, const ProductOperands& p,
           void* workspace) const;

 private:
  // The library's struct has no tag, and nvcc 13.0 aborts where a vector of such a struct is
  // destroyed, so it gets a name here.
  struct Proposal : blas::Heuristic {};

  explicit Product(const MatMulShape& shape);  // without an algorithm
  std::vector<Proposal> proposals(blas::Handle handle, const MatMulShape& shape,
                                  std::uint32_t alignment, std::size_t workspace_bytes,
                                  int most) const;
  void choose(const Proposal& proposal);

  blas::Desc desc_ = nullptr;
  blas::Layout first_ = nullptr, second_ = nullptr, result_ = nullptr;
  blas::Algorithm algo_{};
  std::size_t workspace_bytes_ = 0;
  bool accumulate_ = false;
};

}  // namespace shardmark::device
