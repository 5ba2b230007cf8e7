// SPDX-License-Identifier: Apache-2.0
// The part of cuBLASLt that core/nn/gpu uses, implemented by plain loops in host memory:
// column-major matrices, batches, the old C times beta, and a bias for each row of the result. As
// in cuBLASLt, attributes of a wrong size, extents that do not match, and operands with less
// alignment than promised are errors.
#include <algorithm>
#include <cstring>
#include <vector>

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <core/numeric/half.hpp>
#include <tests/core/nn/gpu/stand_ins/fake_events.hpp>

namespace {

using shardmark::Bf16;
using shardmark::Fp16;

constexpr std::size_t wanted_workspace = 64;

struct Desc {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  std::int32_t transa = CUBLAS_OP_N, transb = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  std::int32_t bias_type = -1;
  const void* bias = nullptr;
};
struct Layout {
  cudaDataType_t type;
  std::int64_t rows, cols, ld;
  std::int32_t batch = 1;
  std::int64_t stride = 0;
};
struct Preference {
  std::uint64_t workspace = 0;
  std::uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_MASK, alignment = 256;
};

Desc& of(cublasLtMatmulDesc_t d) {
  return *reinterpret_cast<Desc*>(d);
}
Layout& of(cublasLtMatrixLayout_t l) {
  return *reinterpret_cast<Layout*>(l);
}
Preference& of(cublasLtMatmulPreference_t p) {
  return *reinterpret_cast<Preference*>(p);
}

template<class T>
cublasStatus_t set(T& to, const void* from, std::size_t bytes) {
  if (bytes != sizeof to) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, from, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

template<class F>
void with_type(cudaDataType_t type, const F& f) {
  if (type == CUDA_R_32F) f(float{});
  if (type == CUDA_R_16BF) f(Bf16{});
  if (type == CUDA_R_16F) f(Fp16{});
}
float get(cudaDataType_t type, const void* x, std::int64_t i) {
  float value = 0;
  with_type(type, [&](auto t) { value = shardmark::widen(static_cast<const decltype(t)*>(x)[i]); });
  return value;
}
void put(cudaDataType_t type, void* x, std::int64_t i, double value) {
  with_type(type, [&](auto t) {
    shardmark::round_to(static_cast<decltype(t)*>(x)[i], static_cast<float>(value));
  });
}

// A matrix of a product as floats, [columns][rows], which is how it is stored if `as_stored`.
std::vector<float> widened(const void* x, const Layout& l, std::int64_t from, std::int64_t columns,
                           std::int64_t rows, bool as_stored) {
  std::vector<float> all(static_cast<std::size_t>(columns * rows));
  for (std::int64_t column = 0; column < columns; ++column)
    for (std::int64_t row = 0; row < rows; ++row)
      all[column * rows + row] =
          get(l.type, x, from + (as_stored ? column * l.ld + row : row * l.ld + column));
  return all;
}

// The number of elements that one product has; otherwise an error.
struct Extents {
  std::int64_t m, n, k;
  bool match;
  Extents(const Desc& d, const Layout& a, const Layout& b, const Layout& c)
      : m(c.rows), n(c.cols), k(d.transa == CUBLAS_OP_N ? a.cols : a.rows) {
    match = (d.transa == CUBLAS_OP_N ? a.rows : a.cols) == m &&
            (d.transb == CUBLAS_OP_N ? b.rows : b.cols) == k &&
            (d.transb == CUBLAS_OP_N ? b.cols : b.rows) == n && a.ld >= a.rows && b.ld >= b.rows &&
            c.ld >= c.rows && a.batch == c.batch && b.batch == c.batch && a.type == b.type;
  }
};

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new int(0));
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<int*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* d, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  *d = reinterpret_cast<cublasLtMatmulDesc_t>(new Desc{compute, scale});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) {
  delete &of(d);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d,
                                              cublasLtMatmulDescAttributes_t what, const void* from,
                                              std::size_t bytes) {
  switch (what) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return set(of(d).transa, from, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return set(of(d).transb, from, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return set(of(d).epilogue, from, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return set(of(d).bias_type, from, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return set(of(d).bias, from, bytes);
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* l, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t cols, std::int64_t ld) {
  *l = reinterpret_cast<cublasLtMatrixLayout_t>(
      new Layout{type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(cols), ld});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) {
  delete &of(l);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l,
                                                cublasLtMatrixLayoutAttribute_t what,
                                                const void* from, std::size_t bytes) {
  switch (what) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: return set(of(l).batch, from, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: return set(of(l).stride, from, bytes);
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* p) {
  *p = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) {
  delete &of(p);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                    cublasLtMatmulPreferenceAttributes_t what,
                                                    const void* from, std::size_t bytes) {
  switch (what) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return set(of(p).workspace, from, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return set(of(p).schemes, from, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: return set(of(p).alignment, from, bytes);
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

// The algorithm records the alignment that it was promised.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t d,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t c,
                                              cublasLtMatmulPreference_t p, int,
                                              cublasLtMatmulHeuristicResult_t* found, int* count) {
  *count = 0;
  if (!Extents(of(d), of(a), of(b), of(c)).match) return CUBLAS_STATUS_INVALID_VALUE;
  // No result may be rounded to a shorter type on the way.
  if (of(d).compute != CUBLAS_COMPUTE_32F || of(d).scale != CUDA_R_32F ||
      (of(p).schemes & CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE) != 0)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (of(p).workspace < wanted_workspace) return CUBLAS_STATUS_NOT_SUPPORTED;
  found->workspaceSize = wanted_workspace;
  found->algo.data[0] = of(p).alignment;
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* result,
                              cublasLtMatrixLayout_t result_layout,
                              const cublasLtMatmulAlgo_t* algo, void* workspace, std::size_t room,
                              cudaStream_t) {
  const Desc& d = of(desc);
  const Layout &la = of(a_layout), &lb = of(b_layout), &lc = of(c_layout), &lr = of(result_layout);
  const Extents e(d, la, lb, lr);
  std::uintptr_t addresses = reinterpret_cast<std::uintptr_t>(result);
  for (const void* x : {a, b, c}) addresses |= reinterpret_cast<std::uintptr_t>(x);
  if (!e.match || room < wanted_workspace || addresses % algo->data[0] != 0 ||
      reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0)
    return CUBLAS_STATUS_INVALID_VALUE;
  const float times = *static_cast<const float*>(alpha), before = *static_cast<const float*>(beta);
  for (std::int64_t i = 0; i < lr.batch; ++i) {
    // Both operands widened, [k][row] and [col][k].
    const std::vector<float> left =
        widened(a, la, i * la.stride, e.k, e.m, d.transa == CUBLAS_OP_N);
    const std::vector<float> right =
        widened(b, lb, i * lb.stride, e.n, e.k, d.transb == CUBLAS_OP_N);
    std::vector<double> sums(static_cast<std::size_t>(e.m));
    for (std::int64_t col = 0; col < e.n; ++col) {
      std::fill(sums.begin(), sums.end(), 0.0);
      for (std::int64_t k = 0; k < e.k; ++k) {
        const double factor = right[col * e.k + k];
        for (std::int64_t row = 0; row < e.m; ++row) sums[row] += left[k * e.m + row] * factor;
      }
      for (std::int64_t row = 0; row < e.m; ++row) {
        double sum = sums[row] * times;
        const std::int64_t at = i * lr.stride + col * lr.ld + row;
        if (before != 0) sum += before * get(lc.type, c, i * lc.stride + col * lc.ld + row);
        if (d.epilogue == CUBLASLT_EPILOGUE_BIAS)
          sum += get(static_cast<cudaDataType_t>(d.bias_type), d.bias, row);
        put(lr.type, result, at, sum);
      }
    }
  }
  shardmark::test::stand_in::product_passed();
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasLtGetStatusString(cublasStatus_t) {
  return "the stand-in for cuBLASLt found something wrong";
}
const char* cudaGetErrorString(cudaError_t) {
  return "no CUDA here";
}

}  // extern "C"
