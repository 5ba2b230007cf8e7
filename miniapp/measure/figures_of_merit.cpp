// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include <core/text.hpp>
#include <miniapp/measure/figures_of_merit.hpp>

namespace shardmark {

double gib_per_s(std::int64_t bytes, double seconds) {
  return seconds > 0 ? static_cast<double>(bytes) / seconds / gib_bytes : 0;
}

double mean_gib_per_s(std::int64_t bytes, const std::vector<double>& seconds) {
  const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  return seconds.empty() ? 0 : gib_per_s(bytes, sum / static_cast<double>(seconds.size()));
}

std::optional<double> parameter_tokens_per_s(const Program& program, const Result& result) {
  if (!result.checkpoints.timed_write_s.empty()) return std::nullopt;
  return result.tokens_per_s * static_cast<double>(program.model.parameters);
}

std::vector<FigureOfMerit> figures_of_merit(const Result& result) {
  const CheckpointFigures& c = result.checkpoints;
  if (c.timed_write_s.empty()) {
    std::vector<FigureOfMerit> merits{{"tokens_per_s", result.tokens_per_s, "tokens/s"}};
    const auto joules = result.energy.joules();
    if (joules && result.energy.tokens > 0 && result.energy.error() <= most_energy_error)
      merits.push_back({"joules_per_token", *joules / result.energy.tokens, "J/token"});
    return merits;
  }
  return {{"checkpoint_write_gib_per_s", mean_gib_per_s(c.timed_bytes, c.timed_write_s), "GiB/s",
           "written"},
          {"checkpoint_read_gib_per_s", mean_gib_per_s(c.timed_bytes, c.timed_read_s), "GiB/s",
           "read"}};
}

}  // namespace shardmark
