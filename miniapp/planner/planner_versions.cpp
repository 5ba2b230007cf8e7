// SPDX-License-Identifier: Apache-2.0
// A planner has no MPI, Kokkos or other library whose version would change an answer.
#include <core/text_of.hpp>
#include <miniapp/provenance/machine.hpp>
#include <miniapp/provenance/version.hpp>

namespace shardmark {

std::map<std::string, std::string> library_versions() {
  return {{"shardmark", version()},
          {"planner", "plans, predicts and verifies; runs nothing"},
          {"compiler", SHARDMARK_TEXT_OF(SHARDMARK_COMPILER_ID SHARDMARK_COMPILER_VERSION)},
          {"system", operating_system()}};
}

}  // namespace shardmark
