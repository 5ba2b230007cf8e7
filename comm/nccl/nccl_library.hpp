// SPDX-License-Identifier: Apache-2.0
// The header of NCCL, or of RCCL, which has the same names.
#pragma once

#include <core/gpu_runtime.hpp>

#if defined(__HIP_PLATFORM_AMD__)
#include <rccl/rccl.h>
#else
#include <nccl.h>
#endif

namespace shardmark {

#if defined(__HIP_PLATFORM_AMD__)
inline constexpr const char* nccl_name = "RCCL";
#else
inline constexpr const char* nccl_name = "NCCL";
#endif

/// Whether a non-blocking communicator is still processing a call. Before 2.14, which is RCCL up to
/// 5.4, communicators block.
inline bool in_progress([[maybe_unused]] ncclResult_t code) {
#if NCCL_VERSION_CODE >= 21400
  return code == ncclInProgress;
#else
  return false;
#endif
}

}  // namespace shardmark
