// SPDX-License-Identifier: Apache-2.0
// The library stores matrices by columns. A row-major matrix is the transpose of a column-major
// one, so C = op(A) op(B) is computed as C^T = op(B)^T op(A)^T: B comes first, and n is the number
// of rows, along which the library adds a bias.
#include <algorithm>
#include <utility>

#include <core/error.hpp>
#include <core/nn/gpu/check.hpp>
#include <core/nn/gpu/product.hpp>

namespace shardmark::device {
namespace {

blas::Type library_type(Dtype type) {
  switch (type) {
    case Dtype::fp32: return SHARDMARK_BLAS_TYPE(R_32F);
    case Dtype::bf16: return SHARDMARK_BLAS_TYPE(R_16BF);
    case Dtype::fp16: return SHARDMARK_BLAS_TYPE(R_16F);
    default: break;
  }
  throw PlanError("matrix product: operands of type " + std::string(to_string(type)) +
                  ": must be fp32, bf16 or fp16");
}

template<class T>
void set(blas::Desc desc, blas::DescAttribute what, const T& value) {
  SHARDMARK_PRODUCT(MatmulDescSetAttribute, desc, what, &value, sizeof value);
}
template<class T>
void set(blas::Layout layout, blas::LayoutAttribute what, const T& value) {
  SHARDMARK_PRODUCT(MatrixLayoutSetAttribute, layout, what, &value, sizeof value);
}
template<class T>
void set(blas::Preference preference, blas::PreferenceAttribute what, const T& value) {
  SHARDMARK_PRODUCT(MatmulPreferenceSetAttribute, preference, what, &value, sizeof value);
}

// Describes the transpose of a row-major matrix of rows x cols, or of a batch of them.
blas::Layout make_layout(const MatMulShape& s, Dtype type, std::int64_t rows, std::int64_t cols,
                         std::int64_t ld, std::int64_t stride) {
  blas::Layout layout = nullptr;
  SHARDMARK_PRODUCT(MatrixLayoutCreate, &layout, library_type(type),
                    static_cast<std::uint64_t>(cols), static_cast<std::uint64_t>(rows), ld);
  set(layout, SHARDMARK_BLAS_VALUE(MATRIX_LAYOUT_BATCH_COUNT), static_cast<std::int32_t>(s.batch));
  set(layout, SHARDMARK_BLAS_VALUE(MATRIX_LAYOUT_STRIDED_BATCH_OFFSET), stride);
  return layout;
}

class Preference {
 public:
  Preference() { SHARDMARK_PRODUCT(MatmulPreferenceCreate, &preference_); }
  ~Preference() { static_cast<void>(SHARDMARK_BLAS(MatmulPreferenceDestroy)(preference_)); }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;
  blas::Preference get() const { return preference_; }

 private:
  blas::Preference preference_ = nullptr;
};

// Sums of parts of a product are not added in a type shorter than fp32, and operands have no more
// alignment than `alignment` bytes. hipBLASLt has no preference for either: it reads the alignment
// of the pointers itself.
void require_exact([[maybe_unused]] blas::Preference preference,
                   [[maybe_unused]] std::uint32_t alignment) {
#if !defined(__HIP_PLATFORM_AMD__)
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE |
                                 CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  for (const auto what :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set(preference, what, alignment);
#endif
}

}  // namespace

std::uint32_t alignment_of(const ProductOperands& p) {
  std::uintptr_t bits = 256;
  for (const void* address : {p.a, p.b, static_cast<const void*>(p.c), p.bias, p.added})
    bits |= reinterpret_cast<std::uintptr_t>(address);
  return static_cast<std::uint32_t>(bits & (~bits + 1));  // the lowest bit that any address has
}

Product::Product(const MatMulShape& s) : accumulate_(s.accumulate) {
  if (s.bias && s.c_type != s.type)
    throw PlanError(to_string(s) + ": a bias of type " + std::string(to_string(s.type)) +
                    " with C of type " + std::string(to_string(s.c_type)) +
                    ": both must have the same type on a GPU");
  SHARDMARK_PRODUCT(MatmulDescCreate, &desc_, SHARDMARK_BLAS_COMMON(COMPUTE_32F),
                    SHARDMARK_BLAS_TYPE(R_32F));
  set(desc_, SHARDMARK_BLAS_VALUE(MATMUL_DESC_TRANSA),
      s.transpose_b ? SHARDMARK_BLAS_COMMON(OP_T) : SHARDMARK_BLAS_COMMON(OP_N));
  set(desc_, SHARDMARK_BLAS_VALUE(MATMUL_DESC_TRANSB),
      s.transpose_a ? SHARDMARK_BLAS_COMMON(OP_T) : SHARDMARK_BLAS_COMMON(OP_N));
  if (s.bias) {
    set(desc_, SHARDMARK_BLAS_VALUE(MATMUL_DESC_EPILOGUE), SHARDMARK_BLAS_VALUE(EPILOGUE_BIAS));
    set(desc_, SHARDMARK_BLAS_VALUE(MATMUL_DESC_BIAS_DATA_TYPE),
        static_cast<std::int32_t>(library_type(s.type)));
  }
  first_ = make_layout(s, s.type, s.transpose_b ? s.n : s.k, s.transpose_b ? s.k : s.n, s.ldb,
                       s.stride_b);
  second_ = make_layout(s, s.type, s.transpose_a ? s.k : s.m, s.transpose_a ? s.m : s.k, s.lda,
                        s.stride_a);
  result_ = make_layout(s, s.c_type, s.m, s.n, s.ldc, s.stride_c);
}

std::vector<Product::Proposal> Product::proposals(blas::Handle handle, const MatMulShape& s,
                                                  std::uint32_t alignment,
                                                  std::size_t workspace_bytes, int most) const {
  const Preference preference;
  set(preference.get(), SHARDMARK_BLAS_VALUE(MATMUL_PREF_MAX_WORKSPACE_BYTES), workspace_bytes);
  require_exact(preference.get(), alignment);
  std::vector<Proposal> found(static_cast<std::size_t>(most));
  static_assert(sizeof(Proposal) == sizeof(blas::Heuristic));
  int count = 0;
  const blas::Status status =
      SHARDMARK_BLAS(MatmulAlgoGetHeuristic)(handle, desc_, first_, second_, result_, result_,
                                             preference.get(), most, found.data(), &count);
  if (status == SHARDMARK_BLAS_COMMON(STATUS_NOT_SUPPORTED) ||
      (status == SHARDMARK_BLAS_COMMON(STATUS_SUCCESS) && count == 0))
    throw PlanError(to_string(s) + ": " + blas::name + " has no algorithm for at most " +
                    std::to_string(workspace_bytes) +
                    " bytes of workspace and operands aligned to " + std::to_string(alignment) +
                    " bytes: raise the workspace cap");
  check(status, SHARDMARK_TEXT_OF(SHARDMARK_BLAS(MatmulAlgoGetHeuristic)));
  found.resize(static_cast<std::size_t>(count));
  return found;
}

void Product::choose(const Proposal& proposal) {
  algo_ = proposal.algo;
  workspace_bytes_ = proposal.workspaceSize;
}

// The delegated constructor has completed, so that the destructor runs if the choice throws.
Product::Product(blas::Handle handle, const MatMulShape& s, std::uint32_t alignment,
                 std::size_t workspace_bytes)
    : Product(s) {
  choose(proposals(handle, s, alignment, workspace_bytes, 1).front());
}

std::vector<Product> Product::candidates(blas::Handle handle, const MatMulShape& s,
                                         std::uint32_t alignment, std::size_t workspace_bytes,
                                         int most) {
  std::vector<Product> all;
  for (const Proposal& proposal :
       Product(s).proposals(handle, s, alignment, workspace_bytes, most)) {
    Product product(s);
    product.choose(proposal);
    all.push_back(std::move(product));
  }
  return all;
}

Product::Product(Product&& other) noexcept
    : desc_(std::exchange(other.desc_, nullptr)),
      first_(std::exchange(other.first_, nullptr)),
      second_(std::exchange(other.second_, nullptr)),
      result_(std::exchange(other.result_, nullptr)),
      algo_(other.algo_),
      workspace_bytes_(other.workspace_bytes_),
      accumulate_(other.accumulate_) {}

Product::~Product() {
  for (auto* layout : {first_, second_, result_})
    if (layout != nullptr) static_cast<void>(SHARDMARK_BLAS(MatrixLayoutDestroy)(layout));
  if (desc_ != nullptr) static_cast<void>(SHARDMARK_BLAS(MatmulDescDestroy)(desc_));
}

void Product::run(blas::Handle handle, device::Stream stream, const ProductOperands& p,
                  void* workspace) const {
  if (p.bias != nullptr) set(desc_, SHARDMARK_BLAS_VALUE(MATMUL_DESC_BIAS_POINTER), p.bias);
  const float alpha = 1.0f, beta = accumulate_ ? 1.0f : 0.0f;
  const void* added = p.added != nullptr ? p.added : p.c;
  SHARDMARK_PRODUCT(Matmul, handle, desc_, &alpha, p.b, first_, p.a, second_, &beta, added, result_,
                    p.c, result_, &algo_, workspace, workspace_bytes_, stream);
}

}  // namespace shardmark::device
