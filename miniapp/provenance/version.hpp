// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace shardmark {

/// "0.2.0"
std::string version();

/// The commit that the program was built from, `v0.2.0-12-gabc1234-dirty`; empty without Git. Known
/// to the program alone, not to the libraries: only the program is linked again after a commit.
std::string commit();

/// The version and what the program was built from and with: commit, compiler, libraries, one per
/// line. MPI need not be initialised.
std::string version_page(const std::string& commit);

}  // namespace shardmark
