// SPDX-License-Identifier: Apache-2.0
// The numbers that a run is ranked by: tokens a second, or, of the storage benchmark, GiB a second.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <miniapp/measure/result.hpp>

namespace shardmark {

/// Bytes a second in GiB (2^30).
double gib_per_s(std::int64_t bytes, double seconds);
/// Of several transfers of `bytes` each: over their mean time.
double mean_gib_per_s(std::int64_t bytes, const std::vector<double>& seconds);

/// Names and values, at least one.
std::vector<std::pair<std::string, double>> figures_of_merit(const Result& result);

}  // namespace shardmark
