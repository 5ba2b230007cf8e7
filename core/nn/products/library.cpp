// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <oneapi/dnnl/dnnl.hpp>

#include <core/nn/products/library.hpp>

namespace shardmark {

std::string matmul_library() {
  const dnnl::version_t* v = dnnl::version();
  return fmt::format("oneDNN {}.{}.{}", v->major, v->minor, v->patch);
}

}  // namespace shardmark
