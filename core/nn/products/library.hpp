// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace shardmark {

/// The matrix-product library in use, "oneDNN 2.6.3".
std::string matmul_library();

}  // namespace shardmark
