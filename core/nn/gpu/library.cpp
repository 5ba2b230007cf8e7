// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <core/nn/gpu/check.hpp>
#include <core/nn/products/library.hpp>

namespace shardmark {
namespace {

#if defined(__HIP_PLATFORM_AMD__)
// Only a handle tells the version.
std::size_t version() {
  device::blas::Handle handle = nullptr;
  int number = 0;
  SHARDMARK_PRODUCT(Create, &handle);
  SHARDMARK_PRODUCT(GetVersion, handle, &number);
  SHARDMARK_PRODUCT(Destroy, handle);
  return static_cast<std::size_t>(number);
}
constexpr std::size_t major = 100'000;
#else
std::size_t version() {
  return cublasLtGetVersion();
}
constexpr std::size_t major = 10'000;
#endif

}  // namespace

std::string matmul_library() {
  const std::size_t v = version();
  return std::string(device::blas::name) + " " + std::to_string(v / major) + "." +
         std::to_string(v / 100 % (major / 100)) + "." + std::to_string(v % 100);
}

}  // namespace shardmark
