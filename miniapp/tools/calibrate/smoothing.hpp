// SPDX-License-Identifier: Apache-2.0
// What measured points tell about each other: how well the others foretell each one, and how far
// the noise of each is averaged with that of its neighbours.
#pragma once

#include <string>
#include <vector>

#include <core/plan/price/machine.hpp>

namespace shardmark {

/// Replaces the times of each table by a local fit through those of similar sizes (Scatter), since
/// many of them come from few launches. The fit reaches as far as makes it best at foretelling
/// points that are left out: on a quiet machine not at all, so that a shape with a speed of its own
/// keeps it.
void smooth(std::vector<ProductTimes>& products);
void smooth(std::vector<StreamTimes>& streams);

/// A point, and what the others of its table say about it.
struct LeftOut {
  std::string table;  // "products fp32 nt", "adamw_update fp32"
  double seconds = 0, interpolated_s = 0;
  double beyond = 1;  // how far the point lies outside of the others
  double error() const { return interpolated_s / seconds - 1; }
};

/// Leaves out each point of the device's tables in turn, which must not be smoothed yet.
std::vector<LeftOut> leave_one_out(const DeviceModel& device);
/// The mean of |error| of those that the others surround, weighted by time.
double held_out_error(const std::vector<LeftOut>& points);

}  // namespace shardmark
