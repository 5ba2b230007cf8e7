// SPDX-License-Identifier: Apache-2.0
// The library of matrix products on a GPU, cuBLASLt or hipBLASLt, whose names differ by their
// prefix: SHARDMARK_BLAS(Matmul) is cublasLtMatmul or hipblasLtMatmul, SHARDMARK_BLAS_VALUE(…) one
// of its constants, SHARDMARK_BLAS_COMMON(…) one of those that cuBLAS and hipBLAS share with it.
#pragma once

#include <string>

#include <core/gpu_runtime.hpp>

#if defined(__HIP_PLATFORM_AMD__)
#include <hipblaslt/hipblaslt.h>
#define SHARDMARK_BLAS(name) hipblasLt##name
#define SHARDMARK_BLAS_VALUE(name) HIPBLASLT_##name
#define SHARDMARK_BLAS_COMMON(name) HIPBLAS_##name
#define SHARDMARK_BLAS_TYPE(name) HIP_##name
#else
#include <cublasLt.h>
#define SHARDMARK_BLAS(name) cublasLt##name
#define SHARDMARK_BLAS_VALUE(name) CUBLASLT_##name
#define SHARDMARK_BLAS_COMMON(name) CUBLAS_##name
#define SHARDMARK_BLAS_TYPE(name) CUDA_##name
#endif

namespace shardmark::device::blas {

using Handle = SHARDMARK_BLAS(Handle_t);
using Desc = SHARDMARK_BLAS(MatmulDesc_t);
using Layout = SHARDMARK_BLAS(MatrixLayout_t);
using Preference = SHARDMARK_BLAS(MatmulPreference_t);
using Algorithm = SHARDMARK_BLAS(MatmulAlgo_t);
using Heuristic = SHARDMARK_BLAS(MatmulHeuristicResult_t);
using DescAttribute = SHARDMARK_BLAS(MatmulDescAttributes_t);
using LayoutAttribute = SHARDMARK_BLAS(MatrixLayoutAttribute_t);
using PreferenceAttribute = SHARDMARK_BLAS(MatmulPreferenceAttributes_t);

#if defined(__HIP_PLATFORM_AMD__)
inline constexpr const char* name = "hipBLASLt";
using Status = hipblasStatus_t;
using Type = hipDataType;
using ComputeType = hipblasComputeType_t;
// hipBLASLt alone has no texts.
inline std::string text_of(Status status) {
  return "status " + std::to_string(static_cast<int>(status));
}
#else
inline constexpr const char* name = "cuBLASLt";
using Status = cublasStatus_t;
using Type = cudaDataType_t;
using ComputeType = cublasComputeType_t;
inline std::string text_of(Status status) {
  return cublasLtGetStatusString(status);
}
#endif

}  // namespace shardmark::device::blas
