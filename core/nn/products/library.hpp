// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace shardmark {

/// Returns the name and version of the matrix-product library, for example "oneDNN 2.6.3".
std::string matmul_library();

}  // namespace shardmark
