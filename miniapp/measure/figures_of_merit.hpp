// SPDX-License-Identifier: Apache-2.0
// The numbers that rank a run: tokens per second, with joules per token where energy is measured,
// or GiB per second for the storage benchmark.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <core/plan/plan.hpp>
#include <miniapp/measure/result.hpp>

namespace shardmark {

/// GiB (2^30 bytes) per second.
double gib_per_s(std::int64_t bytes, double seconds);
/// `bytes`, the size of each of several transfers, over their mean time.
double mean_gib_per_s(std::int64_t bytes, const std::vector<double>& seconds);

/// Tokens per second times the parameters of the model. Each token costs arithmetic in proportion
/// to the parameters, so this figure compares models of different sizes, as runs with `model.fit`
/// have them. Empty for the storage benchmark.
std::optional<double> parameter_tokens_per_s(const Program& program, const Result& result);

/// One number that ranks a run.
struct FigureOfMerit {
  std::string name;  // in the FOM line and in report.json
  double value = 0;
  std::string_view unit;     // "tokens/s"
  std::string_view of = {};  // what the unit does not say: "written"; may be empty

  bool operator==(const FigureOfMerit&) const = default;
};
/// At least one; the first is the main one. Everything that prints, draws or stores the result of a
/// run in one number uses this list.
std::vector<FigureOfMerit> figures_of_merit(const Result& result);

}  // namespace shardmark
