// SPDX-License-Identifier: Apache-2.0
// What no machine can do. These are the last resort of a verification: what a report says of itself
// is looked at first.
#pragma once

#include <miniapp/tools/submission/checks/run_facts.hpp>

namespace shardmark {

/// Most of what one rank can do.
struct Limits {
  double tflop_per_s = 0;      // matrix products of the type in which the model computes
  double memory_gb_per_s = 0;  // read and written, in caches or memory
};

/// The limits of a rank of this run: those of its threads on a host, of a device on a GPU. Throws
/// ReportError.
Limits limits_of(const RunFacts& facts);

}  // namespace shardmark
