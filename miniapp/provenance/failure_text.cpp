// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <miniapp/provenance/failure_text.hpp>
#include <miniapp/provenance/version.hpp>

namespace shardmark {

std::string failure_text(const Failure& failure) {
  // A message that names neither place nor remedy is the system's refusal, wherever it came.
  if (failure.status == ExitStatus::memory && !failure.what.empty() &&
      failure.what.find(": ") == std::string::npos)
    return failure.what +
           ": end other programs, run fewer ranks on each node, or give a smaller deck";
  if (failure.status != ExitStatus::defect || failure.what.empty()) return failure.what;
  return fmt::format(
      "{}: this is a defect in ShardMark {}, not in your deck: please report this message with the "
      "version, the deck with all --set arguments, and the number of ranks",
      failure.what, version());
}

}  // namespace shardmark
